// store_k, store_v and add_mass. Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_ROWS_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_ROWS_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_ROWS_INL_H_
#endif

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "kernels/highway/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

HWY_INLINE void convert_row(const float* HWY_RESTRICT from, int32_t n, uint16_t* HWY_RESTRICT to) {
  int32_t d = 0;
  for (; d + kLanes <= n; d += kLanes) store(load(from + d), to + d);
  if (d < n) store_first(load_first(from + d, n - d), to + d, n - d);
}

void store_v(uint16_t* v, int32_t head_dim_v, int32_t first_slot, int32_t n_tokens,
             const float* rows, ptrdiff_t row_stride) {
  assert(first_slot >= 0 && n_tokens >= 0 && first_slot + n_tokens <= kPageSlots);
  for (int32_t t = 0; t < n_tokens; ++t) {
    convert_row(rows + t * row_stride, head_dim_v,
                v + static_cast<ptrdiff_t>(first_slot + t) * head_dim_v);
  }
}

/// Slots [lane, lane + n) of one group, whose first channel lies at `group`.
HWY_INLINE void store_group(uint16_t* HWY_RESTRICT group, int32_t head_dim_k, int32_t lane,
                            int32_t n, const float* rows, ptrdiff_t row_stride) {
  constexpr int32_t kChannels = 64;
  uint16_t half[kLaneSlots][kChannels];
  for (int32_t first = 0; first < head_dim_k; first += kChannels) {
    const int32_t n_channels = std::min(kChannels, head_dim_k - first);
    for (int32_t t = 0; t < n; ++t) {
      convert_row(rows + t * row_stride + first, n_channels, half[t]);
    }
    for (int32_t d = 0; d < n_channels; ++d) {
      uint16_t* to = group + static_cast<ptrdiff_t>(first + d) * kLaneSlots + lane;
      for (int32_t t = 0; t < n; ++t) to[t] = half[t][d];
    }
  }
}

void store_k(uint16_t* k, int32_t head_dim_k, int32_t first_slot, int32_t n_tokens,
             const float* rows, ptrdiff_t row_stride) {
  assert(first_slot >= 0 && n_tokens >= 0 && first_slot + n_tokens <= kPageSlots);
  const int32_t last_slot = first_slot + n_tokens;
  for (int32_t slot = first_slot; slot < last_slot;) {
    const int32_t lane = slot % kLaneSlots;
    const int32_t n = std::min(kLaneSlots - lane, last_slot - slot);
    store_group(k + static_cast<ptrdiff_t>(slot - lane) * head_dim_k, head_dim_k, lane, n,
                rows + (slot - first_slot) * row_stride, row_stride);
    slot += n;
  }
}

void add_mass(const float* scores, int32_t n, float m, float s, float weight, float* mass) {
  assert(s > 0);
  const F32 d;
  const Vec unit = hn::Set(d, weight / s);
  const Vec max = hn::Set(d, m);
  const Vec highest = hn::Set(d, 88.3f);  // a score may exceed m by rounding, not by this much
  for (int32_t i = 0; i < n; i += kLanes) {
    const int32_t width = std::min(kLanes, n - i);
    const Vec x = at_most(hn::Sub(load_first(scores + i, width), max), highest);
    store_first(hn::MulAdd(exp(x), unit, load_first(mass + i, width)), mass + i, width);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_ROWS_INL_H_
