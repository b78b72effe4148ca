// How a layer's demoted rows are stored: the two codecs of rows that stand for themselves, or the
// residual tier.
#pragma once

#include <algorithm>
#include <cstdint>

#include "format/row_codec.h"

namespace kvasir {

/// Rows that leave the f16 tier at once: each time the rest of that tier moves up.
inline constexpr int32_t kFewestDemoted = 32;
/// The same of the residual tier: the paper's R, so that f16 rows are W .. W + R - 1 or more.
inline constexpr int32_t kResidualBlock = 128;

/// The codecs of a layer's demoted rows; null: f16 (both null and not residual: nothing is demoted).
struct RowCodecs {
  const RowCodec* k = nullptr;
  const RowCodec* v = nullptr;
  bool residual = false;  ///< K and V together, as differences; k and v are null

  bool demotes() const { return residual || k != nullptr || v != nullptr; }
  /// Rows that are taken at once: a multiple of both block sizes.
  int32_t unit() const {
    int32_t rows = residual ? kResidualBlock : kFewestDemoted;
    if (k != nullptr) rows = std::max(rows, k->block_rows());
    if (v != nullptr) rows = std::max(rows, v->block_rows());
    return rows;
  }
  friend bool operator==(const RowCodecs&, const RowCodecs&) = default;
};

}  // namespace kvasir
