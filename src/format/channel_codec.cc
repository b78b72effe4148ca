#include "format/channel_codec.h"

#include <array>

#include "format/quantize.h"
#include "kernels/kernels.h"

namespace kvasir {

void ChannelCodec::encode(int32_t head_dim, const float* rows, ptrdiff_t row_stride,
                          std::byte* codes, std::byte* shared) const {
  const size_t stride = row_bytes(head_dim);
  const auto n_rows = static_cast<size_t>(block_rows_);
  std::fill_n(codes, stride * n_rows, std::byte{0});
  const int32_t max_code = (1 << packing_.bits) - 1;
  for (int32_t d = 0; d < head_dim; ++d) {
    std::array<float, kMaxBlockRows> column{};
    float low = kMaxHalf;
    float high = -kMaxHalf;
    for (size_t r = 0; r < n_rows; ++r) {
      column[r] = admitted(rows[static_cast<ptrdiff_t>(r) * row_stride + d]);
      low = std::min(low, column[r]);
      high = std::max(high, column[r]);
    }
    const Steps steps = packing_.has_zero() ? steps_between(low, high, max_code)
                                            : symmetric_steps(std::max(-low, high), max_code / 2);
    const size_t at = static_cast<size_t>(d) * 2;
    put_half(shared + at, steps.scale);
    if (packing_.has_zero()) put_half(shared + static_cast<size_t>(head_dim) * 2 + at, steps.zero);
    for (size_t r = 0; r < n_rows; ++r) {
      const uint32_t code = packing_.has_zero()
                                ? steps.code(column[r], max_code)
                                : static_cast<uint32_t>(steps.signed_code(column[r], max_code / 2));
      put_code(codes + r * stride, packing_.bits, head_dim, d, code);
    }
  }
}

void ChannelCodec::decode(int32_t head_dim, const std::byte* codes, int32_t n_rows,
                          const std::byte* shared, float* out) const {
  best_kernels().unpack_rows({packing_, head_dim, n_rows, codes, shared}, out);
}

}  // namespace kvasir
