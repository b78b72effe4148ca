// How a layer's demoted rows are stored: by two codecs, each row for itself, or by a tier that
// holds K and V together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "format/row_codec.h"

namespace kvasir {

/// Rows that leave the f16 tier at once: each time the rest of that tier moves up.
inline constexpr int32_t kFewestDemoted = 32;
/// The same of tiers that hold K and V together: DeltaKV's R.
inline constexpr int32_t kTogetherBlock = 128;

/// Which tier takes demoted rows.
enum class ColdStore {
  kCodes,     ///< rows that stand for themselves, K and V apart (CodedTier)
  kResidual,  ///< differences from similar rows (ResidualTier)
  kLatent,    ///< coordinates along principal axes (LatentTier)
};

/// The codecs of a layer's demoted rows; null: f16 (both null in kCodes: nothing is demoted).
struct RowCodecs {
  const RowCodec* k = nullptr;
  const RowCodec* v = nullptr;
  ColdStore store = ColdStore::kCodes;  ///< any other: k and v are null

  bool demotes() const { return store != ColdStore::kCodes || k != nullptr || v != nullptr; }
  /// Rows that are taken at once: a multiple of both block sizes.
  int32_t unit() const {
    int32_t rows = store == ColdStore::kCodes ? kFewestDemoted : kTogetherBlock;
    if (k != nullptr) rows = std::max(rows, k->block_rows());
    if (v != nullptr) rows = std::max(rows, v->block_rows());
    return rows;
  }
  friend bool operator==(const RowCodecs&, const RowCodecs&) = default;
};

}  // namespace kvasir
