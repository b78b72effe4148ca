// The two products of attention as register tiles: a few query rows times a few vectors.
//
// scores: q[r] . k over channels, one vector holding consecutive slots. output: p[r] times V over
// slots, one vector holding consecutive channels. Both read f16 pages directly (T = uint16_t) or
// f32 tiles that were converted before (T = float). Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_TILES_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_TILES_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_TILES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/highway/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

/// Rows of one register tile.
constexpr int32_t kTileRows = 4;

/// Vectors of one register tile: rows x vectors accumulators, the vectors and one broadcast fit
/// the register file, and there are enough independent sums to hide the latency of an FMA.
constexpr int32_t tile_vectors(int32_t rows) {
  constexpr bool kManyRegisters = HWY_TARGET != HWY_AVX2;  // 32, else 16
  return kManyRegisters || rows <= 2 ? 4 : 2;
}

/// Slots [slot, slot + kLanes) of channel d lie at slot_offset(slot) + d * step.
struct KeyLayout {
  ptrdiff_t group;  ///< elements between two groups of kLaneSlots slots
  ptrdiff_t step;   ///< elements between two channels

  HWY_INLINE ptrdiff_t slot_offset(int32_t slot) const {
    return slot / kLaneSlots * group + slot % kLaneSlots;
  }
};

/// scores[r][slot..] (+)= sum over d < n_channels of q[r][d] * k(slot.., d).
/// `scores` has kPageSlots floats per row; `add` continues sums over earlier channels.
template <int32_t kRows, int32_t kVectors, typename T>
HWY_INLINE void score_tile(const float* const* q, int32_t n_channels, const T* k, KeyLayout layout,
                           int32_t slot, bool add, float* HWY_RESTRICT scores, Prefetcher& ahead) {
  const F32 d32;
  Vec sum[kRows][kVectors];
  const T* column[kVectors];
  for (int32_t v = 0; v < kVectors; ++v) {
    column[v] = k + layout.slot_offset(slot + v * kLanes);
    for (int32_t r = 0; r < kRows; ++r) {
      sum[r][v] = add ? load(scores + r * kPageSlots + slot + v * kLanes) : hn::Zero(d32);
    }
  }
  ptrdiff_t offset = 0;
  for (int32_t d = 0; d < n_channels; ++d, offset += layout.step) {
    ahead.step();
    Vec key[kVectors];
    for (int32_t v = 0; v < kVectors; ++v) key[v] = load(column[v] + offset);
    for (int32_t r = 0; r < kRows; ++r) {
      const Vec query = hn::Set(d32, q[r][d]);
      for (int32_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(query, key[v], sum[r][v]);
    }
  }
  for (int32_t v = 0; v < kVectors; ++v) {
    for (int32_t r = 0; r < kRows; ++r) {
      store(sum[r][v], scores + r * kPageSlots + slot + v * kLanes);
    }
  }
}

/// score_tile over all vectors that hold one of the first n_slots slots.
template <int32_t kRows, typename T>
HWY_NOINLINE void score_rows(const float* const* q, int32_t n_channels, const T* k,
                             KeyLayout layout, int32_t n_slots, bool add,
                             float* HWY_RESTRICT scores, Prefetcher& ahead) {
  constexpr int32_t kVectors = tile_vectors(kRows);
  int32_t slot = 0;
  for (; slot + (kVectors - 1) * kLanes < n_slots; slot += kVectors * kLanes) {
    score_tile<kRows, kVectors>(q, n_channels, k, layout, slot, add, scores, ahead);
  }
  for (; slot < n_slots; slot += kLanes) {
    score_tile<kRows, 1>(q, n_channels, k, layout, slot, add, scores, ahead);
  }
}

/// Which V rows enter and where they lie: row of slot s at data + s * stride.
template <typename T>
struct ValueRows {
  const T* data;
  ptrdiff_t stride;      ///< elements
  const T* end;          ///< nothing is read at or past it
  const uint8_t* slots;  ///< [n]
  int32_t n;
};

/// acc[r][0..) = acc[r] * factor[r] + sum over slots of p[r][slot] * V(slot, 0..), for kVectors
/// vectors of channels, or for the first `width` channels when kPartial (one vector then).
template <int32_t kRows, int32_t kVectors, bool kPartial, typename T>
HWY_INLINE void output_tile(const float* HWY_RESTRICT p, const float* factor,
                            const ValueRows<T>& rows, int32_t channel, int32_t width,
                            float* const* acc, Prefetcher& ahead) {
  static_assert(!kPartial || kVectors == 1);
  const F32 d32;
  Vec sum[kRows][kVectors];
  for (int32_t r = 0; r < kRows; ++r) {
    for (int32_t v = 0; v < kVectors; ++v) {
      const float* from = acc[r] + channel + v * kLanes;
      sum[r][v] = hn::Mul(kPartial ? load_first(from, width) : load(from), hn::Set(d32, factor[r]));
    }
  }
  for (int32_t i = 0; i < rows.n; ++i) {
    const int32_t slot = rows.slots[i];
    const T* from = rows.data + slot * rows.stride + channel;
    ahead.step();
    Vec value[kVectors];
    for (int32_t v = 0; v < kVectors; ++v) {
      value[v] =
          kPartial && rows.end - from < kLanes ? load_first(from, width) : load(from + v * kLanes);
    }
    for (int32_t r = 0; r < kRows; ++r) {
      const Vec weight = hn::Set(d32, p[r * kPageSlots + slot]);
      for (int32_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(weight, value[v], sum[r][v]);
    }
  }
  for (int32_t r = 0; r < kRows; ++r) {
    for (int32_t v = 0; v < kVectors; ++v) {
      float* to = acc[r] + channel + v * kLanes;
      if constexpr (kPartial) {
        store_first(sum[r][v], to, width);
      } else {
        store(sum[r][v], to);
      }
    }
  }
}

/// output_tile over n_channels channels.
template <int32_t kRows, typename T>
HWY_NOINLINE void output_rows(const float* HWY_RESTRICT p, const float* factor,
                              const ValueRows<T>& rows, int32_t n_channels, float* const* acc,
                              Prefetcher& ahead) {
  constexpr int32_t kVectors = tile_vectors(kRows);
  int32_t channel = 0;
  for (; channel + kVectors * kLanes <= n_channels; channel += kVectors * kLanes) {
    output_tile<kRows, kVectors, false>(p, factor, rows, channel, 0, acc, ahead);
  }
  for (; channel + kLanes <= n_channels; channel += kLanes) {
    output_tile<kRows, 1, false>(p, factor, rows, channel, 0, acc, ahead);
  }
  if (channel < n_channels) {
    output_tile<kRows, 1, true>(p, factor, rows, channel, n_channels - channel, acc, ahead);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_TILES_INL_H_
