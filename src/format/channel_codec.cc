#include "format/channel_codec.h"

#include <array>
#include <cassert>

#include "format/quantize.h"
#include "kernels/kernels.h"

namespace kvasir {
namespace {

/// Lowest and highest admitted value of a channel.
struct Range {
  float low = kMaxHalf;
  float high = -kMaxHalf;

  void add(float x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
};

}  // namespace

void ChannelCodec::encode(int32_t head_dim, const float* rows, ptrdiff_t row_stride,
                          std::byte* codes, std::byte* shared) const {
  const auto width = static_cast<size_t>(head_dim);
  const bool has_zero = packing_.has_zero();
  const int32_t max_code = (1 << packing_.bits) - 1;
  assert(head_dim <= kMaxHeadDim);
  std::array<Range, kMaxHeadDim> ranges;
  for (int32_t r = 0; r < block_rows_; ++r) {
    const float* const row = rows + r * row_stride;
    for (size_t d = 0; d < width; ++d) ranges[d].add(admitted(row[d]));
  }
  std::array<Steps, kMaxHeadDim> steps;
  for (size_t d = 0; d < width; ++d) {
    const auto [low, high] = ranges[d];
    steps[d] = has_zero ? steps_between(low, high, max_code)
                        : symmetric_steps(std::max(-low, high), max_code / 2);
    put_half(shared + 2 * d, steps[d].step);
    if (has_zero) put_half(shared + 2 * (width + d), steps[d].zero);
  }
  std::array<uint8_t, kMaxHeadDim> chosen;
  for (int32_t r = 0; r < block_rows_; ++r) {
    const float* const row = rows + r * row_stride;
    for (size_t d = 0; d < width; ++d) {
      const float x = admitted(row[d]);
      chosen[d] = has_zero ? steps[d].code(x, max_code) : steps[d].signed_code(x, max_code / 2);
    }
    pack_codes(packing_.bits, head_dim, chosen.data(), codes);
    codes += row_bytes(head_dim);
  }
}

void ChannelCodec::decode(int32_t head_dim, const std::byte* codes, int32_t n_rows,
                          const std::byte* shared, float* out) const {
  best_kernels().unpack_rows({packing_, head_dim, n_rows, codes, shared}, out);
}

}  // namespace kvasir
