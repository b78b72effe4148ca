// Delta-Quant: a token's K and V as a small difference from the mean of similar tokens.
//
// DeltaKV (arXiv 2602.08005, its training-free form in Sparse-vLLM): x = [K of every KV head | V of
// every KV head] of one token and layer, K without its rotation; references are tokens that stand
// for themselves; a token is stored as x - m in few bits, m the mean of its k references. This file
// says which bytes hold a reference and which a difference. Which references a token has, and who
// lives how long, is the residual tier's business (cache/residual_tier.h).
// Immutable; all methods are const and may run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/f16_page.h"
#include "format/row_codec.h"
#include "kernels/kernels.h"

namespace kvasir {

/// How a token finds its references.
enum class ReferenceChoice {
  kNearest,  ///< the k nearest of all at or before the token: the paper's
  kLocal,    ///< the one its own group of `stride` tokens begins with, as CacheGen's anchors
  kRandom,   ///< k of all at or before the token, by a seeded draw: a control
  kMean,     ///< the mean of its block: a control, what removing channel means alone gives
};

/// What nearest means.
enum class ReferenceMetric {
  kFull,    ///< squared L2 of the whole vector: the paper's
  kHalves,  ///< K and V each over its mean squared length, so that neither half decides alone
};

/// --kv-residual; defaults are those of the paper, with the residual turned and references int8.
struct ResidualParams {
  int32_t stride = 10;     ///< s: every s-th token of a block is a reference; 1..kMaxStride
  int32_t neighbours = 4;  ///< k, 1..kMostNeighbours
  int32_t bits = 4;        ///< of a difference: 2, 4, or 16: binary16
  int32_t group = 64;      ///< channels with one scale and zero: 32 or 64
  bool turned = true;      ///< differences of K and V are turned (turn_row) before they are coded
  bool int8 = true;        ///< references are int8, else binary16
  ReferenceChoice choice = ReferenceChoice::kNearest;
  ReferenceMetric metric = ReferenceMetric::kFull;
  bool per_head = false;  ///< each KV head chooses k references for its own K and V

  friend bool operator==(const ResidualParams&, const ResidualParams&) = default;
};

inline constexpr int32_t kMaxStride = 128;
inline constexpr int32_t kMostNeighbours = 16;

/// Reads "s=10,k=4,bits=4,group=64,turn=on,refs=int8,choose=nearest,metric=full,per=token": any of
/// these, in any order, over `params`. Fails with one line that names what is wrong and what is
/// allowed.
Result<ResidualParams> parse_residual(std::string_view text, ResidualParams params = {});
/// The text that parse_residual reads back: what differs from the defaults; empty if nothing does.
std::string residual_text(const ResidualParams& params);

class ResidualCodec {
 public:
  ResidualCodec(const ResidualParams& params, const LayerGeometry& geometry);

  const ResidualParams& params() const { return params_; }
  const LayerGeometry& geometry() const { return geometry_; }
  /// Sets of k references that a token has: one, or one for each KV head.
  int32_t n_sets() const { return params_.per_head ? geometry_.n_kv_heads : 1; }
  /// The set that K and V of a head are differences from.
  int32_t set_of(int32_t head) const { return params_.per_head ? head : 0; }
  /// References of a token, all sets together: set s is [s k, (s + 1) k).
  int32_t n_fathers() const { return params_.neighbours * n_sets(); }
  /// Elements of x: K of all heads, then V of all heads.
  int32_t width() const { return geometry_.width_k() + geometry_.width_v(); }
  /// Bytes of one token's difference, and of one reference.
  size_t difference_bytes() const { return difference_bytes_; }
  size_t reference_bytes() const { return reference_bytes_; }
  /// Bytes of one token, mean over those of long blocks: differences with the numbers of their
  /// references, references, and what says which is which (arXiv 2602.08005 leaves out the last).
  double bytes_per_token() const;

  /// x: [width()] f32.
  void encode_reference(const float* x, std::byte* to) const;
  void decode_reference(const std::byte* from, float* x) const;

  /// Encodes x - mean, both [width()].
  void encode(const float* x, const float* mean, std::byte* to) const;

  /// Where K (V) of one head lies in a reference, and in a difference.
  struct Bytes {
    size_t at, n;
  };
  Bytes in_reference(int32_t head, bool is_k) const;
  Bytes in_difference(int32_t head, bool is_k) const;

  /// K (V) of one head of a reference, [head_dim].
  void decode_reference(const std::byte* from, int32_t head, bool is_k, float* row) const;
  /// K (V) of one head from what encode() wrote and the references whose mean it was given,
  /// [n_fathers] as encode_reference() wrote them: row, [head_dim].
  void restore(const std::byte* difference, const std::byte* const* fathers, int32_t n_fathers,
               int32_t head, bool is_k, const KvKernels& kernels, float* row) const;

 private:
  // K or V of one head: where it lies in x, in a reference and in a difference.
  struct Part {
    int32_t head_dim;
    ptrdiff_t at;
    size_t in_reference, in_difference;
  };
  const Part& part(int32_t head, bool is_k) const {
    return parts_[static_cast<size_t>(is_k ? head : geometry_.n_kv_heads + head)];
  }

  // mean + difference: row holds the mean, [head_dim], and then the sum.
  void add_difference(const std::byte* from, const Part& part, float* row) const;

  ResidualParams params_;
  LayerGeometry geometry_;
  const RowCodec* differences_;
  const RowCodec* references_;
  size_t difference_bytes_ = 0;
  size_t reference_bytes_ = 0;
  std::vector<Part> parts_;  // K of each head, then V of each
};

}  // namespace kvasir
