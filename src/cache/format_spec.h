// The value of --kv-format: which format the demoted rows of each layer have.
//
//   FORMAT                  K and V of every layer; residual, latent: both together
//   FORMAT/FORMAT           K and V apart, for instance int8/int4
//   ...,first=N:FORMAT      the first N layers differ; last=N:FORMAT the last N
//
// Layers are counted among those of one cache: sliding-window layers have another and stay f16.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/row_codecs.h"
#include "format/residual_codec.h"

namespace kvasir {

struct FormatSpec {
  RowCodecs inner;      ///< of layers that nothing else is said of
  int32_t n_first = 0;  ///< the first layers
  RowCodecs first;
  int32_t n_last = 0;  ///< the last layers
  RowCodecs last;

  /// True if rows of some layer are demoted.
  bool demotes() const { return inner.demotes() || first.demotes() || last.demotes(); }
  /// True if rows of some layer are in that tier.
  bool uses(ColdStore store) const {
    return inner.store == store || first.store == store || last.store == store;
  }
  /// Codecs of layer `index` of `n_layers`. Where the first and the last overlap, the first win.
  RowCodecs of_layer(int32_t index, int32_t n_layers) const;
};

/// Bytes of a demoted token of one layer, all KV heads, what is shared spread over its rows.
/// @param rank_percent  of --kv-format latent; its axes, which all tokens share, are not counted
double demoted_token_bytes(const RowCodecs& codecs, const ResidualParams& residual,
                           int32_t rank_percent, const LayerGeometry& geometry);
/// Axes that `percent` of a side's `width` channels are, at least 1.
constexpr int32_t rank_of(int32_t width, int32_t percent) {
  return width * percent / 100 > 0 ? width * percent / 100 : 1;
}

/// Reads a value of --kv-format. Fails with one line that names what is wrong and what is allowed.
Result<FormatSpec> parse_format(std::string_view text);

}  // namespace kvasir
