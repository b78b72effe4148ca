// restore_row and rotate_row: a row from the mean of others and a packed difference, and its
// rotation. Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_RESTORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_RESTORE_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_RESTORE_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_RESTORE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "kernels/highway/simd-inl.h"
#include "kernels/highway/turn_row-inl.h"
#include "kernels/highway/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

/// v / n. By a power of two a product has the bits of the quotient, at a fraction of the time.
HWY_INLINE Vec divide(Vec v, int32_t n) {
  const auto divisor = static_cast<float>(n);
  if (std::has_single_bit(static_cast<uint32_t>(n))) {
    return hn::Mul(v, hn::Set(F32(), 1.0f / divisor));
  }
  return hn::Div(v, hn::Set(F32(), divisor));
}

/// The mean of the fathers, strip by strip. Requires: whole strips. A product of a level of 8 bits
/// and a scale of 11 is exact, so that a fused addition rounds as a plain one does.
HWY_INLINE void mean_of_strips(const RestoreArgs& args, float* HWY_RESTRICT out) {
  const size_t scale_bytes = args.references.scale_bytes(args.head_dim);
  const int32_t last_group = args.references.n_groups(args.head_dim) - 1;
  for (int32_t channel = 0; channel < args.head_dim; channel += kStripChannels) {
    const int32_t group = std::min(channel / args.references.group_channels, last_group);
    Vec sums[kStripVectors];
    for (int32_t v = 0; v < kStripVectors; ++v) sums[v] = hn::Zero(F32());
    for (int32_t f = 0; f < args.n_fathers; ++f) {
      const auto* row = reinterpret_cast<const uint8_t*>(args.fathers[f]);
      const Vec scale = broadcast_half(row + 2 * static_cast<ptrdiff_t>(group));
      const uint8_t* strip = row + scale_bytes + channel;
      HWY_UNROLL(kStripVectors)
      for (int32_t v = 0; v < kStripVectors; ++v) {
        const Vec level = levels_of<Levels::kSigned, 8>(strip, v, kHalfStrip);
        sums[v] = hn::MulAdd(level, scale, sums[v]);
      }
    }
    for (int32_t v = 0; v < kStripVectors; ++v) {
      store(divide(sums[v], args.n_fathers), out + channel + v * kLanes);
    }
  }
}

/// out += x.
HWY_INLINE void add_row(const float* HWY_RESTRICT x, int32_t n, float* HWY_RESTRICT out) {
  for (int32_t d = 0; d < n; d += kLanes) {
    store_first(hn::Add(load_first(out + d, n - d), load_first(x + d, n - d)), out + d, n - d);
  }
}

/// The mean of the fathers, row by row, where the last strip is shorter.
HWY_NOINLINE void mean_of_rows(const RestoreArgs& args, float* HWY_RESTRICT out) {
  float row[kMaxHeadDim];
  const int32_t n = args.head_dim;
  for (int32_t f = 0; f < args.n_fathers; ++f) {
    unpack_rows({args.references, n, 1, args.fathers[f], nullptr}, f == 0 ? out : row);
    if (f > 0) add_row(row, n, out);
  }
  for (int32_t d = 0; d < n; d += kLanes) {
    store_first(divide(load_first(out + d, n - d), args.n_fathers), out + d, n - d);
  }
}

void restore_row(const RestoreArgs& args, float* out) {
  assert(args.references.levels == Levels::kSigned && args.references.bits == 8);
  assert(args.n_fathers > 0 && args.head_dim <= kMaxHeadDim);
  if (args.head_dim % kStripChannels == 0) {
    mean_of_strips(args, out);
  } else {
    mean_of_rows(args, out);
  }
  float difference[kMaxHeadDim];
  unpack_rows({args.difference, args.head_dim, 1, args.packed, nullptr}, difference);
  if (args.turned) turn_row(difference, args.head_dim);
  add_row(difference, args.head_dim, out);
}

struct Pairs {
  Vec x, y;
};

HWY_INLINE Pairs rotate_pairs(const RotateArgs& args, int32_t i, int32_t n, Pairs p) {
  const float* high = args.high + i;
  const float* low = args.low + i;
  const Vec high_cos = load_first(high, n), high_sin = load_first(high + args.n_pairs, n);
  const Vec low_cos = load_first(low, n), low_sin = load_first(low + args.n_pairs, n);
  const Vec cosine = hn::NegMulAdd(high_sin, low_sin, hn::Mul(high_cos, low_cos));
  const Vec sine = hn::MulAdd(high_sin, low_cos, hn::Mul(high_cos, low_sin));
  return {hn::NegMulAdd(p.y, sine, hn::Mul(p.x, cosine)),
          hn::MulAdd(p.x, sine, hn::Mul(p.y, cosine))};
}

void rotate_row(const RotateArgs& args, float* row) {
  float* const first = row + args.offset;
  for (int32_t i = 0; i < args.n_pairs; i += kLanes) {
    const int32_t n = std::min(kLanes, args.n_pairs - i);
    if (args.neox) {
      float* x = first + i;
      float* y = x + args.n_pairs;
      const Pairs turned = rotate_pairs(args, i, n, {load_first(x, n), load_first(y, n)});
      store_first(turned.x, x, n);
      store_first(turned.y, y, n);
      continue;
    }
    float pairs[2 * kLanes] = {};
    float* const at = first + 2 * static_cast<ptrdiff_t>(i);
    std::copy_n(at, 2 * n, pairs);
    Vec x, y;
    hn::LoadInterleaved2(F32(), pairs, x, y);
    const Pairs turned = rotate_pairs(args, i, n, {x, y});
    hn::StoreInterleaved2(turned.x, turned.y, F32(), pairs);
    std::copy_n(pairs, 2 * n, at);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_RESTORE_INL_H_
