// Vectors of up to kLaneSlots f32 lanes: loads of f16, partial loads and stores, exp and tanh.
//
// Compiled once per instruction set. Everything works on values; nothing is shared.
#if defined(KVASIR_KERNELS_HIGHWAY_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_SIMD_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_SIMD_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, kLaneSlots>;
using F16 = hn::Rebind<hwy::float16_t, F32>;
using Vec = hn::Vec<F32>;

constexpr int32_t kLanes = static_cast<int32_t>(hn::MaxLanes(F32()));
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

static_assert(kLaneSlots % kLanes == 0, "a vector must not cross a group of interleaved slots");

HWY_INLINE Vec load(const float* from) { return hn::LoadU(F32(), from); }

HWY_INLINE Vec load(const uint16_t* from) {
  return hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(from)));
}

/// The first `n` lanes from memory, zero beyond; reads nothing past them.
template <typename T>
HWY_INLINE Vec load_first(const T* from, int32_t n) {
  if (n >= kLanes) return load(from);
  HWY_ALIGN T padded[kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(n) * sizeof(T));
  return load(padded);
}

HWY_INLINE void store(Vec v, float* to) { hn::StoreU(v, F32(), to); }

/// To nearest binary16, ties to even.
HWY_INLINE void store(Vec v, uint16_t* to) {
  hn::StoreU(hn::DemoteTo(F16(), v), F16(), reinterpret_cast<hwy::float16_t*>(to));
}

/// Writes the first `n` lanes and nothing past them.
template <typename T>
HWY_INLINE void store_first(Vec v, T* to, int32_t n) {
  if (n >= kLanes) return store(v, to);
  HWY_ALIGN T padded[kLanes];
  store(v, padded);
  std::memcpy(to, padded, static_cast<size_t>(n) * sizeof(T));
}

/// The smaller of v and `limit`; NaN stays NaN. Of a NaN and a number, Min gives the second on x86
/// but the number on NEON.
HWY_INLINE Vec at_most(Vec v, Vec limit) {
#if HWY_ARCH_X86
  return hn::Min(limit, v);
#else
  return hn::IfThenElse(hn::Gt(v, limit), limit, v);
#endif
}

/// Fetches the cache lines of [at, end) step by step, two per step.
struct Prefetcher {
  const uint16_t* at = nullptr;
  const uint16_t* end = nullptr;

  HWY_INLINE void step() {
    constexpr ptrdiff_t kLine = 64 / sizeof(uint16_t);
    if (at >= end) return;
    __builtin_prefetch(at, 0, 2);
    __builtin_prefetch(at + kLine, 0, 2);
    at += 2 * kLine;
  }
};

/// exp(x + x_low) for |x_low| far below |x|: relative error below 1.5e-7. x in [-inf, 88.3]; below
/// -87.3 (results under the smallest normal number) 0; NaN stays NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts (Cody & Waite); e^r by a minimax
/// polynomial of degree 6, relative error 4e-9; 2^n by the exponent field.
template <bool kWithLow>
HWY_INLINE Vec exp_sum(Vec x, Vec x_low) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  constexpr float kLowest = -87.3f;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const Vec shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), hn::Set(d, 0x1.8p23f));
  const Vec n = hn::Sub(shifted, hn::Set(d, 0x1.8p23f));
  Vec r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  if constexpr (kWithLow) r = hn::Add(r, x_low);
  Vec q = hn::MulAdd(hn::Set(d, 0.00138145406f), r, hn::Set(d, 0.00836874545f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.0416683890f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.166665211f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.49999994f));
  const Vec e = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  const auto exponent =
      hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, shifted)), hn::Set(du, uint32_t{127} << 23));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kLowest)), hn::Mul(e, hn::BitCast(d, exponent)));
}

HWY_INLINE Vec exp(Vec x) { return exp_sum<false>(x, x); }

/// tanh with an absolute error below 2e-7: an odd minimax polynomial below 0.5 (relative error
/// 2e-8 and rounding), 1 - 2 / (e^2|x| + 1) above. NaN stays NaN.
HWY_INLINE Vec tanh(Vec x) {
  const F32 d;
  const Vec magnitude = hn::Abs(x);
  const Vec z = hn::Mul(x, x);
  Vec r = hn::MulAdd(hn::Set(d, 0.0172569938f), z, hn::Set(d, -0.0530529507f));
  r = hn::MulAdd(r, z, hn::Set(d, 0.133259878f));
  r = hn::MulAdd(r, z, hn::Set(d, -0.333331496f));
  const Vec small = hn::MulAdd(hn::Mul(x, z), r, x);
  const Vec clamped = at_most(magnitude, hn::Set(d, 10.0f));  // 1 to the last bit from 10 on
  const Vec e = exp(hn::Add(clamped, clamped));
  const Vec one = hn::Set(d, 1.0f);
  const Vec large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.5f)), small, hn::CopySign(large, x));
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_SIMD_INL_H_
