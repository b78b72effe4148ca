#include "format/f16_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/half.h"

namespace kvasir {
namespace {

class F16Codec final : public RowCodec {
 public:
  int32_t block_rows() const override { return 1; }
  size_t row_bytes(int32_t head_dim) const override {
    return static_cast<size_t>(head_dim) * sizeof(uint16_t);
  }
  size_t shared_bytes(int32_t) const override { return 0; }

  void encode(int32_t head_dim, const float* rows, ptrdiff_t, std::byte* codes,
              std::byte*) const override {
    constexpr float kLargest = 65504.0F;
    for (int32_t d = 0; d < head_dim; ++d) {
      const float x = std::isnan(rows[d]) ? 0.0F : std::clamp(rows[d], -kLargest, kLargest);
      const uint16_t half = float_to_half(x);
      std::memcpy(codes + static_cast<size_t>(d) * sizeof(half), &half, sizeof(half));
    }
  }

  void decode(int32_t head_dim, const std::byte* codes, int32_t n_rows, const std::byte*,
              float* out) const override {
    const size_t n = static_cast<size_t>(head_dim) * static_cast<size_t>(n_rows);
    for (size_t i = 0; i < n; ++i) {
      uint16_t half;
      std::memcpy(&half, codes + i * sizeof(half), sizeof(half));
      out[i] = half_to_float(half);
    }
  }
};

}  // namespace

const RowCodec& f16_codec() {
  static const F16Codec codec;
  return codec;
}

}  // namespace kvasir
