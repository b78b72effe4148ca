#include <cassert>
#include <cmath>

#include "kernels/half.h"
#include "kernels/reference/reference.h"

namespace kvasir::reference {

void store_k(uint16_t* k, int32_t head_dim_k, int32_t first_slot, int32_t n_tokens,
             const float* rows, ptrdiff_t row_stride) {
  assert(first_slot >= 0 && n_tokens >= 0 && first_slot + n_tokens <= kPageSlots);
  for (int32_t t = 0; t < n_tokens; ++t) {
    const int32_t slot = first_slot + t;
    uint16_t* column =
        k + static_cast<ptrdiff_t>(slot / kLaneSlots) * head_dim_k * kLaneSlots + slot % kLaneSlots;
    for (int32_t d = 0; d < head_dim_k; ++d) {
      column[static_cast<ptrdiff_t>(d) * kLaneSlots] = float_to_half(rows[t * row_stride + d]);
    }
  }
}

void store_v(uint16_t* v, int32_t head_dim_v, int32_t first_slot, int32_t n_tokens,
             const float* rows, ptrdiff_t row_stride) {
  assert(first_slot >= 0 && n_tokens >= 0 && first_slot + n_tokens <= kPageSlots);
  for (int32_t t = 0; t < n_tokens; ++t) {
    uint16_t* row = v + static_cast<ptrdiff_t>(first_slot + t) * head_dim_v;
    for (int32_t d = 0; d < head_dim_v; ++d) row[d] = float_to_half(rows[t * row_stride + d]);
  }
}

void add_mass(const float* scores, int32_t n, float m, float s, float weight, float* mass) {
  assert(s > 0);
  const double unit = static_cast<double>(weight) / static_cast<double>(s);
  for (int32_t i = 0; i < n; ++i) {
    const double p = std::exp(static_cast<double>(scores[i]) - static_cast<double>(m));
    mass[i] = static_cast<float>(static_cast<double>(mass[i]) + p * unit);
  }
}

}  // namespace kvasir::reference
