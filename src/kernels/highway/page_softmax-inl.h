// Softmax of a page for probabilities that become integers. Compiled once, beside the AVX-512
// table.
#ifndef KVASIR_KERNELS_HIGHWAY_PAGE_SOFTMAX_INL_H_
#define KVASIR_KERNELS_HIGHWAY_PAGE_SOFTMAX_INL_H_

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/highway/row_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

/// exp(x) for x <= 0: 2^n * 2^f, |f| <= 1/2, by a polynomial of degree 5 (relative error 2e-7 and
/// 6e-8 for each unit of x). -inf gives 0, NaN stays NaN.
HWY_INLINE Vec exp_of_negative(Vec x) {
  const __m512 y = _mm512_mul_ps(x.raw, _mm512_set1_ps(0x1.715476p+0f));
  const __m512 n = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(y, n);
  __m512 q = _mm512_set1_ps(0.00133908633f);
  q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(0.00961890817f));
  q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(0.0555035882f));
  q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(0.240226462f));
  q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(0.693147182f));
  q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(1.0f));
  return Vec{_mm512_scalef_ps(q, n)};
}

/// What the rows of a block learn from one page. p is relative to the largest score of the page, so
/// that it fills its integers; `weight` brings it to the scale of the state.
struct PageSums {
  HWY_ALIGN float most[kBlockRows];
  HWY_ALIGN float sum[kBlockRows];
  HWY_ALIGN float weight[kBlockRows];
};

struct FoldPageRow {
  PageSums& sums;

  HWY_INLINE float operator()(const Vec* score, float page_max, float* HWY_RESTRICT p,
                              int32_t /*row*/, int32_t i) const {
    const F32 d;
    const Vec most = hn::Set(d, page_max);
    Vec sum = hn::Zero(d);
    for (int32_t v = 0; v < kPageVectors; ++v) {
      const Vec e = exp_of_negative(hn::Sub(score[v], most));
      store(e, p + v * kLanes);
      sum = hn::Add(sum, e);
    }
    sums.most[i] = page_max;
    sums.sum[i] = hn::GetLane(hn::SumOfLanes(d, sum));
    return 1.0f;
  }
};

/// Takes the page into m and s of 16 rows from `first` of the block on; their factors and weights.
HWY_INLINE void fold_rows(const SoftmaxState& state, int32_t first, RowBlock& block,
                          PageSums& sums) {
  const F32 d;
  const int32_t n = std::min(kLanes, block.n - first);
  HWY_ALIGN float m[kLanes] = {};
  HWY_ALIGN float s[kLanes] = {};
  HWY_ALIGN float factors[kLanes];
  for (int32_t i = 0; i < n; ++i) {
    m[i] = state.m[block.row[first + i]];
    s[i] = state.s[block.row[first + i]];
  }
  const Vec old = load(m);
  const Vec most = load(sums.most + first);
  const Vec sum = load(sums.sum + first);
  const auto higher = hn::Gt(most, old);
  const auto nothing = hn::Eq(most, hn::Set(d, kMinusInfinity));
  const Vec one = hn::Set(d, 1.0f);
  const Vec distance =
      hn::Sub(hn::IfThenElse(higher, old, most), hn::IfThenElse(higher, most, old));
  const Vec shrink = hn::IfThenZeroElse(nothing, exp_of_negative(distance));
  const Vec factor = hn::IfThenElse(higher, shrink, one);
  const Vec weight = hn::IfThenElse(higher, one, shrink);
  store(hn::IfThenElse(higher, most, old), m);
  store(hn::MulAdd(load(s), factor, hn::Mul(sum, weight)), s);
  store(factor, factors);
  // NaN where a score is.
  store(hn::MulAdd(sum, hn::Zero(d), weight), sums.weight + first);
  for (int32_t i = 0; i < n; ++i) {
    state.m[block.row[first + i]] = m[i];
    state.s[block.row[first + i]] = s[i];
    block.factor[first + i] = factors[i];
  }
}

/// Softmax of all rows of the block.
HWY_INLINE void softmax_page(const PageArgs& args, const SoftmaxState& state, RowBlock& block,
                             PageSums& sums) {
  const int32_t n = (block.n + kLanes - 1) / kLanes * kLanes;
  std::fill_n(sums.most, n, kMinusInfinity);
  std::fill_n(sums.sum, n, 0.0f);
  softmax_block(args, block, FoldPageRow{sums});
  for (int32_t i = 0; i < block.n; i += kLanes) fold_rows(state, i, block, sums);
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_PAGE_SOFTMAX_INL_H_
