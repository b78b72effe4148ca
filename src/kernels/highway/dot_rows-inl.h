// dot_rows: all dot products of two sets of rows. Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_DOT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_DOT_ROWS_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_DOT_ROWS_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_DOT_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/highway/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

constexpr int32_t kDotRows = 4;  // 4 x 4 sums and 4 + 1 operands fit the registers

/// kA x kB products; rows are `dim` elements apart.
template <int32_t kA, int32_t kB>
HWY_INLINE void dot_tile(const float* a, const float* b, int32_t dim, float* out, ptrdiff_t n_b) {
  Vec sum[kA][kB];
  for (int32_t i = 0; i < kA; ++i) {
    for (int32_t j = 0; j < kB; ++j) sum[i][j] = hn::Zero(F32());
  }
  const auto step = static_cast<ptrdiff_t>(dim);
  int32_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    Vec row_b[kB];
    for (int32_t j = 0; j < kB; ++j) row_b[j] = load(b + j * step + d);
    for (int32_t i = 0; i < kA; ++i) {
      const Vec row_a = load(a + i * step + d);
      for (int32_t j = 0; j < kB; ++j) sum[i][j] = hn::MulAdd(row_a, row_b[j], sum[i][j]);
    }
  }
  const int32_t rest = dim - d;
  HWY_UNROLL(4)
  for (int32_t i = 0; i < kA; ++i) {
    HWY_UNROLL(4)
    for (int32_t j = 0; j < kB; ++j) {
      Vec total = sum[i][j];
      if (rest > 0) {
        total = hn::MulAdd(load_first(a + i * step + d, rest), load_first(b + j * step + d, rest),
                           total);
      }
      out[i * n_b + j] = hn::GetLane(hn::SumOfLanes(F32(), total));
    }
  }
}

template <int32_t kA>
HWY_INLINE void dot_strip(const float* a, const float* b, int32_t n_b, int32_t dim, float* out) {
  int32_t j = 0;
  for (; j + kDotRows <= n_b; j += kDotRows) {
    dot_tile<kA, kDotRows>(a, b + static_cast<ptrdiff_t>(j) * dim, dim, out + j, n_b);
  }
  for (; j < n_b; ++j) dot_tile<kA, 1>(a, b + static_cast<ptrdiff_t>(j) * dim, dim, out + j, n_b);
}

void dot_rows(const float* a, int32_t n_a, const float* b, int32_t n_b, int32_t dim, float* out) {
  int32_t i = 0;
  for (; i + kDotRows <= n_a; i += kDotRows) {
    dot_strip<kDotRows>(a + static_cast<ptrdiff_t>(i) * dim, b, n_b, dim,
                        out + static_cast<ptrdiff_t>(i) * n_b);
  }
  for (; i < n_a; ++i) {
    dot_strip<1>(a + static_cast<ptrdiff_t>(i) * dim, b, n_b, dim,
                 out + static_cast<ptrdiff_t>(i) * n_b);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_DOT_ROWS_INL_H_
