// attend_page: scores, softmax and output of one page, block of rows by block of rows.
//
// Few rows read the f16 page directly, each vector once for all of them: decode is bound by
// memory. Many rows read f32 tiles that are converted once per block: prefill is bound by FMAs.
// Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_ATTEND_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_ATTEND_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_ATTEND_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>

#include "kernels/half.h"
#include "kernels/highway/row_block-inl.h"
#include "kernels/highway/simd-inl.h"
#include "kernels/highway/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

constexpr int32_t kDirectRows = 8;     // up to here the page is read as f16
constexpr int32_t kTileChannels = 64;  // a tile of 64 slots x 64 channels is 16 KiB

/// Page-sized scratch of f32, for K or V.
struct Tile {
  HWY_ALIGN float data[kPageSlots * kTileChannels];
};

/// q.k of all rows of the block against `n_channels` channels from `channel` on.
template <typename T>
HWY_INLINE void score_block(RowBlock& block, const T* k, KeyLayout layout, int32_t channel,
                            int32_t n_channels, int32_t n_slots, Prefetcher& ahead) {
  const bool add = channel != 0;
  for (int32_t i = 0; i < block.n; i += kTileRows) {
    const float* q[kTileRows];
    const int32_t n = std::min(kTileRows, block.n - i);
    for (int32_t r = 0; r < n; ++r) q[r] = block.q[i + r] + channel;
    float* p = block.p + i * kPageSlots;
    switch (n) {
      case 1:
        score_rows<1>(q, n_channels, k, layout, n_slots, add, p, ahead);
        break;
      case 2:
        score_rows<2>(q, n_channels, k, layout, n_slots, add, p, ahead);
        break;
      case 3:
        score_rows<3>(q, n_channels, k, layout, n_slots, add, p, ahead);
        break;
      default:
        score_rows<4>(q, n_channels, k, layout, n_slots, add, p, ahead);
        break;
    }
  }
}

/// Channels [channel, channel + n) of K as tile[d][slot].
HWY_INLINE void convert_keys(const PageArgs& args, int32_t channel, int32_t n, Tile& tile) {
  const int32_t n_groups = (args.n_slots + kLaneSlots - 1) / kLaneSlots;
  for (int32_t g = 0; g < n_groups; ++g) {
    const uint16_t* from =
        args.k + (static_cast<ptrdiff_t>(g) * args.head_dim_k + channel) * kLaneSlots;
    for (int32_t d = 0; d < n; ++d) {
      for (int32_t lane = 0; lane < kLaneSlots; lane += kLanes) {
        store(load(from + d * kLaneSlots + lane),
              tile.data + d * kPageSlots + g * kLaneSlots + lane);
      }
    }
  }
}

/// q.k of the whole block; meanwhile V is fetched.
HWY_INLINE void scores_of_block(const PageArgs& args, RowBlock& block, Tile& tile) {
  Prefetcher values{args.v, args.v + static_cast<ptrdiff_t>(args.n_slots) * args.head_dim_v};
  if (block.n <= kDirectRows) {
    const KeyLayout layout{static_cast<ptrdiff_t>(args.head_dim_k) * kLaneSlots, kLaneSlots};
    score_block(block, args.k, layout, 0, args.head_dim_k, args.n_slots, values);
    return;
  }
  const KeyLayout layout{kLaneSlots, kPageSlots};
  for (int32_t channel = 0; channel < args.head_dim_k; channel += kTileChannels) {
    const int32_t n = std::min(kTileChannels, args.head_dim_k - channel);
    convert_keys(args, channel, n, tile);
    score_block(block, tile.data, layout, channel, n, args.n_slots, values);
  }
}

/// True if one of n f16 values is infinite or NaN.
HWY_INLINE bool any_not_finite(const uint16_t* values, int32_t n) {
  bool found = false;
  for (int32_t i = 0; i < n; ++i) found |= (values[i] & kHalfInfinity) == kHalfInfinity;
  return found;
}

/// Slots that some row sees and another does not, and whose V is not finite: 0 * V would carry it
/// into the row that must not see it.
HWY_INLINE uint64_t slots_to_part(const PageArgs& args, const RowBlock& block) {
  uint64_t found = 0;
  for (uint64_t rest = block.any & ~block.all; rest != 0; rest &= rest - 1) {
    const int slot = std::countr_zero(rest);
    const uint16_t* v = args.v + static_cast<ptrdiff_t>(slot) * args.head_dim_v;
    if (any_not_finite(v, args.head_dim_v)) found |= uint64_t{1} << slot;
  }
  return found;
}

/// Adds p.V of such slots to the rows that see them, one by one.
HWY_INLINE void add_parted(const PageArgs& args, const RowBlock& block, uint64_t slots) {
  for (uint64_t rest = slots; rest != 0; rest &= rest - 1) {
    const int slot = std::countr_zero(rest);
    const uint16_t* v = args.v + static_cast<ptrdiff_t>(slot) * args.head_dim_v;
    for (int32_t i = 0; i < block.n; ++i) {
      if (((block.visible[i] >> slot) & 1u) == 0) continue;
      const Vec p = hn::Set(F32(), block.p[i * kPageSlots + slot]);
      for (int32_t d = 0; d < args.head_dim_v; d += kLanes) {
        const int32_t width = std::min(kLanes, args.head_dim_v - d);
        float* acc = block.acc[i] + d;
        store_first(hn::MulAdd(p, load_first(v + d, width), load_first(acc, width)), acc, width);
      }
    }
  }
}

template <typename T>
HWY_INLINE void output_block(const RowBlock& block, const ValueRows<T>& rows, int32_t channel,
                             int32_t n_channels, Prefetcher& ahead) {
  for (int32_t i = 0; i < block.n; i += kTileRows) {
    float* acc[kTileRows];
    const int32_t n = std::min(kTileRows, block.n - i);
    for (int32_t r = 0; r < n; ++r) acc[r] = block.acc[i + r] + channel;
    const float* p = block.p + i * kPageSlots;
    const float* factor = block.factor + i;
    switch (n) {
      case 1:
        output_rows<1>(p, factor, rows, n_channels, acc, ahead);
        break;
      case 2:
        output_rows<2>(p, factor, rows, n_channels, acc, ahead);
        break;
      case 3:
        output_rows<3>(p, factor, rows, n_channels, acc, ahead);
        break;
      default:
        output_rows<4>(p, factor, rows, n_channels, acc, ahead);
        break;
    }
  }
}

/// Channels [channel, channel + n) of V of the listed slots as tile[slot][d], zero up to a whole
/// vector.
HWY_INLINE void convert_values(const PageArgs& args, const uint8_t* slots, int32_t n_slots,
                               int32_t channel, int32_t n, Tile& tile) {
  for (int32_t i = 0; i < n_slots; ++i) {
    const uint16_t* from = args.v + static_cast<ptrdiff_t>(slots[i]) * args.head_dim_v + channel;
    float* to = tile.data + slots[i] * kTileChannels;
    for (int32_t d = 0; d < n; d += kLanes) store(load_first(from + d, n - d), to + d);
  }
}

/// p.V of the whole block; meanwhile K of the next page is fetched.
HWY_INLINE void output_of_block(const PageArgs& args, const RowBlock& block, Tile& tile) {
  Prefetcher next;
  if (args.next_k != nullptr) {
    next = {args.next_k, args.next_k + static_cast<ptrdiff_t>(kPageSlots) * args.head_dim_k};
  }
  const uint64_t parted = slots_to_part(args, block);
  uint8_t slots[kPageSlots];
  int32_t n = 0;
  for (uint64_t rest = block.any & ~parted; rest != 0; rest &= rest - 1) {
    slots[n++] = static_cast<uint8_t>(std::countr_zero(rest));
  }
  if (block.n <= kDirectRows) {
    const uint16_t* end = args.v + static_cast<ptrdiff_t>(args.n_slots) * args.head_dim_v;
    const ValueRows<uint16_t> rows{args.v, args.head_dim_v, end, slots, n};
    output_block(block, rows, 0, args.head_dim_v, next);
  } else {
    const float* end = tile.data + kPageSlots * kTileChannels;
    const ValueRows<float> rows{tile.data, kTileChannels, end, slots, n};
    for (int32_t channel = 0; channel < args.head_dim_v; channel += kTileChannels) {
      const int32_t width = std::min(kTileChannels, args.head_dim_v - channel);
      convert_values(args, slots, n, channel, width, tile);
      output_block(block, rows, channel, width, next);
    }
  }
  if (parted != 0) add_parted(args, block, parted);
}

/// p relative to the largest score so far.
struct FoldRow {
  const SoftmaxState& state;

  HWY_INLINE float operator()(const Vec* score, float page_max, float* p, int32_t row,
                              int32_t /*i*/) const {
    return fold_row(score, page_max, p, state.m + row, state.s + row);
  }
};

void attend_page(const PageArgs& args, const SoftmaxState& state) {
  assert(args.n_slots >= 1 && args.n_slots <= kPageSlots);
  assert(args.head_dim_k >= 1 && args.head_dim_k <= kMaxHeadDim);
  assert(args.head_dim_v >= 1 && args.head_dim_v <= state.acc_stride);
  Tile tile;
  for (int32_t first = 0; first < args.n_rows; first += kBlockRows) {
    RowBlock block;
    collect_rows(args, state, first, std::min(first + kBlockRows, args.n_rows), block);
    if (block.n == 0) continue;
    scores_of_block(args, block, tile);
    softmax_block(args, block, FoldRow{state});
    output_of_block(args, block, tile);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_ATTEND_INL_H_
