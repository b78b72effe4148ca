#include <bit>
#include <cmath>

#include "kernels/reference/reference.h"

namespace kvasir::reference {
namespace {

// Sums and differences of n values, n a power of two, not yet scaled. In f32: what is stored was
// turned with these roundings, in this order, whatever the table.
void transform(float* x, int32_t n) {
  for (int32_t half = 1; half < n; half *= 2) {
    for (int32_t start = 0; start < n; start += 2 * half) {
      float* const low = x + start;
      float* const high = low + half;
      for (int32_t i = 0; i < half; ++i) {
        const float a = low[i];
        const float b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      }
    }
  }
}

}  // namespace

void turn_row(float* row, int32_t head_dim) {
  while (head_dim > 0) {
    const auto n = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(head_dim)));
    transform(row, n);
    const float scale = 1.0f / std::sqrt(static_cast<float>(n));
    for (int32_t i = 0; i < n; ++i) row[i] *= scale;
    row += n;
    head_dim -= n;
  }
}

}  // namespace kvasir::reference
