// unpack_rows: a strip of 32 channels at a time, kept in registers from code to value. Compiled
// once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_UNPACK_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_UNPACK_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_UNPACK_INL_H_
#endif

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/highway/simd-inl.h"
#include "kernels/packed_rows.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using CodeBytes = hn::Rebind<uint8_t, F32>;
using HalfBytes = hn::Repartition<uint8_t, F16>;

constexpr int32_t kStripVectors = kStripChannels / kLanes;
constexpr int32_t kHalfStrip = kStripChannels / 2;

/// kLanes consecutive binary16 at any address.
HWY_INLINE Vec load_halfs(const uint8_t* from) {
  return hn::PromoteTo(F32(), hn::BitCast(F16(), hn::LoadU(HalfBytes(), from)));
}

/// The first n of them, zero beyond; reads nothing past them.
HWY_INLINE Vec load_first_halfs(const uint8_t* from, int32_t n) {
  uint8_t padded[2 * kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(std::min(n, kLanes)) * 2);
  return load_halfs(padded);
}

/// One binary16 in all lanes.
HWY_INLINE Vec broadcast_half(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  const hn::Rebind<uint16_t, F32> d16;
  return hn::PromoteTo(F32(), hn::BitCast(F16(), hn::Set(d16, bits)));
}

/// `kBits` bits of each lane out of one word, lane 0 from bit `first` on.
template <int kBits>
HWY_INLINE hn::Vec<U32> spread(const uint8_t* word, int32_t first) {
  const U32 d;
  uint32_t bits;
  std::memcpy(&bits, word, sizeof(bits));
  const auto lanes = hn::Iota(d, 0);
  const auto shift = hn::Add(kBits == 1 ? lanes : hn::ShiftLeft<1>(lanes),
                             hn::Set(d, static_cast<uint32_t>(first)));
  return hn::And(hn::Shr(hn::Set(d, bits), shift), hn::Set(d, (1u << kBits) - 1));
}

/// First channel of vector v of a strip whose nibble plane has `half` bytes.
template <int kBits>
HWY_INLINE int32_t first_channel(int32_t v, int32_t half) {
  const int32_t first = v * kLanes;
  const bool high = (kBits == 4 || kBits == 5) && first >= kHalfStrip;
  return high ? first - kHalfStrip + half : first;
}

/// Codes of vector v of a strip whose planes lie as in a whole one.
template <int kBits>
HWY_INLINE hn::Vec<U32> codes_of(const uint8_t* strip, int32_t v, int32_t half) {
  const U32 d;
  const int32_t first = v * kLanes;
  const int32_t channel = first_channel<kBits>(v, half);
  if constexpr (kBits == 2) {
    return spread<2>(strip + first / 16 * 4, first % 16 * 2);
  } else if constexpr (kBits == 3) {
    return hn::Or(spread<2>(strip + first / 16 * 4, first % 16 * 2),
                  hn::ShiftLeft<2>(spread<1>(strip + 8, channel)));
  } else if constexpr (kBits == 8) {
    return hn::BitCast(d, hn::PromoteTo(I32(), hn::LoadU(CodeBytes(), strip + first)));
  } else {
    const auto bytes =
        hn::BitCast(d, hn::PromoteTo(I32(), hn::LoadU(CodeBytes(), strip + first % kHalfStrip)));
    const auto nibbles =
        first < kHalfStrip ? hn::And(bytes, hn::Set(d, 15)) : hn::ShiftRight<4>(bytes);
    if constexpr (kBits == 4) return nibbles;
    return hn::Or(nibbles, hn::ShiftLeft<4>(spread<1>(strip + 16, channel)));
  }
}

/// Entries of kNf4Levels, from as many vectors as hold it.
HWY_INLINE Vec nf4_levels(hn::Vec<U32> codes) {
  const F32 d;
  const I32 di;
  const auto code = hn::BitCast(di, codes);
  const auto indices = hn::IndicesFromVec(d, hn::And(code, hn::Set(di, kLanes - 1)));
  Vec levels = hn::TableLookupLanes(load(kNf4Levels.data()), indices);
  for (int32_t first = kLanes; first < 16; first += kLanes) {
    const Vec part = hn::TableLookupLanes(load(kNf4Levels.data() + first), indices);
    const auto here = hn::Gt(code, hn::Set(di, first - 1));
    levels = hn::IfThenElse(hn::RebindMask(d, here), part, levels);
  }
  return levels;
}

template <Levels kLevels, int kBits>
HWY_INLINE Vec levels_of(const uint8_t* strip, int32_t v, int32_t half) {
  if constexpr (kLevels == Levels::kSigned) {
    const hn::Rebind<int8_t, F32> d8;
    const auto bytes = hn::LoadU(d8, reinterpret_cast<const int8_t*>(strip) + v * kLanes);
    return hn::ConvertTo(F32(), hn::PromoteTo(I32(), bytes));
  } else {
    const auto codes = codes_of<kBits>(strip, v, half);
    if constexpr (kLevels == Levels::kNf4) return nf4_levels(codes);
    return hn::ConvertTo(F32(), hn::BitCast(I32(), codes));
  }
}

/// From level to value, for the channels of one strip.
template <Scaling kScaling>
struct Scaler {
  static constexpr bool kByChannel =
      kScaling == Scaling::kChannel || kScaling == Scaling::kChannelZero;
  static constexpr bool kHasZero = kScaling != Scaling::kGroup && kScaling != Scaling::kChannel;

  /// @param scales  scale, and zero, of the strip's group, where groups have them
  HWY_INLINE Scaler(const uint8_t* scales, const uint8_t* shared_halfs, int32_t dim)
      : shared(shared_halfs), head_dim(dim) {
    if constexpr (!kByChannel) {
      scale = broadcast_half(scales);
      if constexpr (kHasZero) zero = broadcast_half(scales + 2);
    }
  }

  /// `load_shared(from)` loads the binary16 of the same channels.
  template <typename Load>
  HWY_INLINE Vec value(Vec level, int32_t channel, const Load& load_shared) const {
    const uint8_t* const at = shared + 2 * static_cast<ptrdiff_t>(channel);
    if constexpr (kScaling == Scaling::kGroup) return hn::Mul(level, scale);
    if constexpr (kScaling == Scaling::kGroupZero) return hn::MulAdd(level, scale, zero);
    if constexpr (kScaling == Scaling::kGroupZeroMean) {
      return hn::Add(hn::MulAdd(level, scale, zero), load_shared(at));
    }
    if constexpr (kScaling == Scaling::kChannel) return hn::Mul(level, load_shared(at));
    return hn::MulAdd(level, load_shared(at),
                      load_shared(at + 2 * static_cast<ptrdiff_t>(head_dim)));
  }

  Vec scale = hn::Zero(F32());
  Vec zero = hn::Zero(F32());
  const uint8_t* shared;
  int32_t head_dim;
};

/// The last n < kStripChannels channels of a row. Their planes are shorter: they are copied to
/// where those of a whole strip lie. The upper nibbles then overwrite what follows the lower ones.
template <Levels kLevels, int kBits, Scaling kScaling>
HWY_NOINLINE void unpack_rest(const uint8_t* strip, const Scaler<kScaling>& scaler, int32_t channel,
                              int32_t n, float* out) {
  uint8_t whole[kStripChannels] = {};
  const int32_t padded = (n + 7) / 8 * 8;
  if constexpr (kBits == 8) {
    std::memcpy(whole, strip, static_cast<size_t>(n));
  } else {
    constexpr int32_t kWide = kBits >= 4 ? 4 : 2;
    const int32_t wide_bytes = padded * kWide / 8;
    std::memcpy(whole, strip, static_cast<size_t>(wide_bytes));
    if constexpr (kBits > kWide) {
      std::memcpy(whole + kWide * kStripChannels / 8, strip + wide_bytes,
                  static_cast<size_t>(padded / 8));
    }
  }
  float levels[kStripChannels + kHalfStrip];
  for (int32_t v = 0; v < kStripVectors; ++v) {
    store(levels_of<kLevels, kBits>(whole, v, padded / 2),
          levels + first_channel<kBits>(v, padded / 2));
  }
  for (int32_t i = 0; i < n; i += kLanes) {
    const int32_t width = n - i;
    const auto load_shared = [width](const uint8_t* at) { return load_first_halfs(at, width); };
    store_first(scaler.value(load(levels + i), channel + i, load_shared), out + i, width);
  }
}

template <Levels kLevels, int kBits, Scaling kScaling>
void unpack(const PackedRows& args, float* HWY_RESTRICT out) {
  constexpr int32_t kScaleBytes = Scaler<kScaling>::kHasZero ? 4 : 2;
  constexpr int32_t kStripBytes = kBits * kStripChannels / 8;
  const int32_t head_dim = args.head_dim;
  const size_t row_bytes = args.packing.row_bytes(head_dim);
  const size_t scale_bytes = args.packing.scale_bytes(head_dim);
  const int32_t last_group = args.packing.n_groups(head_dim) - 1;
  const int32_t group_strips = args.packing.group_channels / kStripChannels;
  const auto* row = reinterpret_cast<const uint8_t*>(args.rows);
  const auto* shared = reinterpret_cast<const uint8_t*>(args.shared);
  for (int32_t r = 0; r < args.n_rows; ++r, row += row_bytes, out += head_dim) {
    const uint8_t* strip = row + scale_bytes;
    int32_t group = 0;
    int32_t left = group_strips;  // strips of this group
    for (int32_t channel = 0; channel < head_dim; channel += kStripChannels, strip += kStripBytes) {
      if (left == 0 && group < last_group) ++group, left = group_strips;
      --left;
      const Scaler<kScaling> scaler(row + group * kScaleBytes, shared, head_dim);
      if (head_dim - channel < kStripChannels) {
        unpack_rest<kLevels, kBits>(strip, scaler, channel, head_dim - channel, out + channel);
        break;
      }
      HWY_UNROLL(kStripVectors)
      for (int32_t v = 0; v < kStripVectors; ++v) {
        const int32_t at = channel + v * kLanes;
        store(scaler.value(levels_of<kLevels, kBits>(strip, v, kHalfStrip), at, load_halfs),
              out + at);
      }
    }
  }
}

template <int kBits>
void unpack_unsigned(const PackedRows& args, float* out) {
  constexpr Levels kLevels = Levels::kUnsigned;
  switch (args.packing.scaling) {
    case Scaling::kGroupZero:
      return unpack<kLevels, kBits, Scaling::kGroupZero>(args, out);
    case Scaling::kGroupZeroMean:
      return unpack<kLevels, kBits, Scaling::kGroupZeroMean>(args, out);
    case Scaling::kChannelZero:
      return unpack<kLevels, kBits, Scaling::kChannelZero>(args, out);
    case Scaling::kGroup:
    case Scaling::kChannel:
      break;
  }
  assert(false && "unsigned levels go with a zero");
}

void unpack_rows(const PackedRows& args, float* out) {
  assert(args.head_dim >= 1 && args.n_rows >= 0);
  switch (args.packing.levels) {
    case Levels::kNf4:
      return unpack<Levels::kNf4, 4, Scaling::kGroup>(args, out);
    case Levels::kSigned:
      return args.packing.scaling == Scaling::kGroup
                 ? unpack<Levels::kSigned, 8, Scaling::kGroup>(args, out)
                 : unpack<Levels::kSigned, 8, Scaling::kChannel>(args, out);
    case Levels::kUnsigned:
      break;
  }
  switch (args.packing.bits) {
    case 2:
      return unpack_unsigned<2>(args, out);
    case 3:
      return unpack_unsigned<3>(args, out);
    case 4:
      return unpack_unsigned<4>(args, out);
    case 5:
      return unpack_unsigned<5>(args, out);
    default:
      assert(args.packing.bits == 8);
      return unpack_unsigned<8>(args, out);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_UNPACK_INL_H_
