// logit_sums: one sweep for the two largest values, one for the sums below the largest.
//
// The logits of one token (200 KB to 1 MB) stay in the second-level cache between the sweeps.
// Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_LOGIT_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_LOGIT_SUMS_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_LOGIT_SUMS_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_LOGIT_SUMS_INL_H_
#endif

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "kernels/highway/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

/// Two largest of all logits into `sums`; false if one is NaN.
HWY_INLINE bool find_top(const float* logits, int32_t n, KvKernels::LogitSums& sums) {
  constexpr int32_t kChains = 4;
  const F32 d;
  Vec first[kChains], second[kChains];
  for (int32_t c = 0; c < kChains; ++c) first[c] = second[c] = hn::Set(d, kMinusInfinity);
  auto ordered = hn::Eq(first[0], first[0]);
  int32_t i = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes) {
    for (int32_t c = 0; c < kChains; ++c) {
      const Vec x = load(logits + i + c * kLanes);
      ordered = hn::And(ordered, hn::Eq(x, x));
      second[c] = hn::Max(second[c], hn::Min(first[c], x));
      first[c] = hn::Max(first[c], x);
    }
  }
  if (!hn::AllTrue(d, ordered)) return false;
  HWY_ALIGN float lanes[2 * kChains * kLanes];
  for (int32_t c = 0; c < kChains; ++c) {
    store(first[c], lanes + 2 * c * kLanes);
    store(second[c], lanes + (2 * c + 1) * kLanes);
  }
  sums.max1 = sums.max2 = kMinusInfinity;
  const auto take = [&sums](float x) {
    sums.max2 = std::max(sums.max2, std::min(sums.max1, x));
    sums.max1 = std::max(sums.max1, x);
  };
  for (const float x : lanes) take(x);
  for (; i < n; ++i) {
    if (std::isnan(logits[i])) return false;
    take(logits[i]);
  }
  return true;
}

/// Lowest index of `value`, which is among the logits.
HWY_INLINE int32_t index_of(const float* logits, int32_t n, float value) {
  const F32 d;
  const Vec wanted = hn::Set(d, value);
  int32_t i = 0;
  while (i + kLanes <= n && hn::AllFalse(d, hn::Eq(load(logits + i), wanted))) i += kLanes;
  while (i < n && logits[i] != value) ++i;
  return i;
}

/// Sums in double of vectors of f32.
struct DoubleSum {
  using Half = hn::Half<F32>;
  using F64 = hn::Rebind<double, Half>;
  hn::Vec<F64> low, high;

  HWY_INLINE DoubleSum() : low(hn::Zero(F64())), high(hn::Zero(F64())) {}

  HWY_INLINE void add(Vec x) {
    low = hn::Add(low, hn::PromoteTo(F64(), hn::LowerHalf(Half(), x)));
    high = hn::Add(high, hn::PromoteTo(F64(), hn::UpperHalf(Half(), x)));
  }
  HWY_INLINE double total() const { return hn::GetLane(hn::SumOfLanes(F64(), hn::Add(low, high))); }
};

/// exp(l - max) and (l - max) exp(l - max) of one vector of logits.
///
/// l - max is taken with its rounding error (Knuth's two-sum): where many entries of one value
/// far below the maximum carry the sums, an error of half an ulp of l - max would be that of Z.
struct Terms {
  Vec z, s;

  HWY_INLINE Terms(Vec l, Vec max) {
    const F32 d;
    const Vec x = hn::Sub(l, max);
    const Vec taken = hn::Sub(x, l);  // -max, rounded as x was
    const Vec low = hn::Sub(hn::Sub(l, hn::Sub(x, taken)), hn::Add(max, taken));
    // Where exp is 0 anyway x may be infinite, and 0 * x must be 0.
    const auto tiny = hn::Lt(x, hn::Set(d, -100.0f));
    z = exp_sum<true>(x, hn::IfThenZeroElse(tiny, low));
    s = hn::Mul(hn::IfThenZeroElse(tiny, x), z);
  }
};

/// Z and S of all logits below `max`, which is finite. Four vectors at a time are added in f32
/// (relative error below 2 * 2^-24), everything above in double.
HWY_INLINE void sum_below(const float* logits, int32_t n, float max, KvKernels::LogitSums& sums) {
  const Vec top = hn::Set(F32(), max);
  DoubleSum z, s;
  int32_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Terms a(load(logits + i), top);
    const Terms b(load(logits + i + kLanes), top);
    const Terms c(load(logits + i + 2 * kLanes), top);
    const Terms e(load(logits + i + 3 * kLanes), top);
    z.add(hn::Add(hn::Add(a.z, b.z), hn::Add(c.z, e.z)));
    s.add(hn::Add(hn::Add(a.s, b.s), hn::Add(c.s, e.s)));
  }
  for (; i < n; i += kLanes) {
    const int32_t width = std::min(kLanes, n - i);
    HWY_ALIGN float rest[kLanes];
    std::fill_n(rest, kLanes, kMinusInfinity);
    std::copy_n(logits + i, width, rest);
    const Terms a(load(rest), top);
    z.add(a.z);
    s.add(a.s);
  }
  sums.z = z.total();
  sums.s = s.total();
}

KvKernels::LogitSums logit_sums(const float* logits, int32_t n) {
  assert(n >= 1);
  KvKernels::LogitSums sums{};
  if (!find_top(logits, n, sums)) return sums;
  sums.finite = std::isfinite(sums.max1);
  if (!sums.finite) return sums;
  sums.argmax = index_of(logits, n, sums.max1);
  sum_below(logits, n, sums.max1, sums);
  return sums;
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_LOGIT_SUMS_INL_H_
