// turn_row: Walsh-Hadamard transforms. Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_TURN_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_TURN_ROW_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_TURN_ROW_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_TURN_ROW_INL_H_
#endif

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/highway/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

/// Lane i becomes lane i ^ half of `v`, with its own value added, or taken off where i has the bit.
HWY_INLINE Vec butterfly(Vec v, int32_t half) {
  const hn::RebindToSigned<F32> di;
  const auto lane = hn::Iota(di, 0);
  const auto other =
      hn::TableLookupLanes(v, hn::IndicesFromVec(F32(), hn::Xor(lane, hn::Set(di, half))));
  const auto minus = hn::And(lane, hn::Set(di, half)) != hn::Zero(di);
  const Vec sign =
      hn::IfThenElse(hn::RebindMask(F32(), minus), hn::Set(F32(), -1.0f), hn::Set(F32(), 1.0f));
  return hn::MulAdd(v, sign, other);
}

HWY_INLINE void transform_small(float* x, int32_t n) {
  for (int32_t half = 1; half < n; half *= 2) {
    for (int32_t start = 0; start < n; start += 2 * half) {
      for (int32_t i = start; i < start + half; ++i) {
        const float a = x[i];
        const float b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

/// n a power of two.
HWY_INLINE void transform(float* x, int32_t n) {
  if (n < kLanes) return transform_small(x, n);
  for (int32_t d = 0; d < n; d += kLanes) {
    Vec v = load(x + d);
    for (int32_t half = 1; half < kLanes; half *= 2) v = butterfly(v, half);
    store(v, x + d);
  }
  for (int32_t half = kLanes; half < n; half *= 2) {
    for (int32_t start = 0; start < n; start += 2 * half) {
      for (int32_t d = start; d < start + half; d += kLanes) {
        const Vec a = load(x + d);
        const Vec b = load(x + d + half);
        store(hn::Add(a, b), x + d);
        store(hn::Sub(a, b), x + d + half);
      }
    }
  }
}

void turn_row(float* row, int32_t head_dim) {
  while (head_dim > 0) {
    const auto n = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(head_dim)));
    transform(row, n);
    const float scale = 1.0f / std::sqrt(static_cast<float>(n));
    int32_t d = 0;
    for (; d + kLanes <= n; d += kLanes)
      store(hn::Mul(load(row + d), hn::Set(F32(), scale)), row + d);
    for (; d < n; ++d) row[d] *= scale;
    row += n;
    head_dim -= n;
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_TURN_ROW_INL_H_
