// attend_page: scores, softmax, output of one page for blocks of query rows.
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
#include "kernels/highway/simd-inl.h"
#include "kernels/highway/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

constexpr int32_t kBlockRows = 64;     // query rows that share one conversion of the page
constexpr int32_t kDirectRows = 8;     // up to here the page is read as f16
constexpr int32_t kTileChannels = 64;  // a tile of 64 slots x 64 channels is 16 KiB

/// The rows of a block that see at least one slot, and what is known of each.
struct RowBlock {
  int32_t n = 0;
  int32_t row[kBlockRows];  ///< index into the arguments
  const float* q[kBlockRows];
  float* acc[kBlockRows];
  float factor[kBlockRows];                    ///< by which the old sums shrink
  uint64_t visible[kBlockRows];                ///< bit per slot
  uint64_t any = 0;                            ///< slots that some row sees
  uint64_t all = ~uint64_t{0};                 ///< slots that every row sees
  HWY_ALIGN float p[kBlockRows * kPageSlots];  ///< scores, then exp(score - m)
};

/// Page-sized scratch of f32, for K or V.
struct Tile {
  HWY_ALIGN float data[kPageSlots * kTileChannels];
};

HWY_INLINE uint64_t first_slots(int32_t n) {
  return n == kPageSlots ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

/// A row's mask values for a whole page: the caller's, or a copy filled up with -inf.
HWY_INLINE const uint16_t* whole_mask(const uint16_t* mask, int32_t n_slots, uint16_t* scratch) {
  if (n_slots == kPageSlots) return mask;
  std::fill(std::copy_n(mask, n_slots, scratch), scratch + kPageSlots, kHalfMinusInfinity);
  return scratch;
}

/// Bit s set: the mask does not hide slot s.
HWY_INLINE uint64_t visible_slots(const uint16_t* mask) {
  const hn::CappedTag<uint16_t, kPageSlots / 2> d;
  constexpr size_t kStep = hn::MaxLanes(hn::CappedTag<uint16_t, kPageSlots / 2>());
  const auto hidden = hn::Set(d, kHalfMinusInfinity);
  uint64_t bits = 0;
  for (size_t slot = 0; slot < kPageSlots; slot += kStep) {
    uint8_t part[8] = {};
    hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, mask + slot), hidden), part);
    uint64_t wide;
    std::memcpy(&wide, part, sizeof(wide));
    bits |= wide << slot;
  }
  return bits;
}

/// Collects the rows [first, last) that see something; the others only get their scores written.
HWY_INLINE void collect_rows(const PageArgs& args, const SoftmaxState& state, int32_t first,
                             int32_t last, RowBlock& block) {
  const uint64_t valid = first_slots(args.n_slots);
  for (int32_t row = first; row < last; ++row) {
    uint64_t visible = valid;
    if (args.mask != nullptr && args.mask[row] != nullptr) {
      uint16_t scratch[kPageSlots];
      visible = visible_slots(whole_mask(args.mask[row], args.n_slots, scratch));
    }
    if (visible == 0) {
      if (args.scores != nullptr) std::fill_n(args.scores[row], args.n_slots, kMinusInfinity);
      continue;
    }
    block.row[block.n] = row;
    block.q[block.n] = args.q[row];
    block.acc[block.n] = state.acc + static_cast<ptrdiff_t>(row) * state.acc_stride;
    block.visible[block.n] = visible;
    block.any |= visible;
    block.all &= visible;
    ++block.n;
  }
}

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

HWY_INLINE hn::Mask<F32> mask_of(uint64_t bits) {
  uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof(bytes));
  return hn::LoadMaskBits(F32(), bytes);
}

constexpr int32_t kPageVectors = kPageSlots / kLanes;

/// Scale, cap and mask of one row's q.k: its final scores, -inf where it does not see the slot.
HWY_INLINE void finish_scores(const PageArgs& args, int32_t row, uint64_t visible, const float* p,
                              Vec* HWY_RESTRICT score) {
  const F32 d;
  const Vec scale = hn::Set(d, args.scale);
  for (int32_t v = 0; v < kPageVectors; ++v) score[v] = hn::Mul(load(p + v * kLanes), scale);
  if (args.soft_cap != 0) {
    const Vec cap = hn::Set(d, args.soft_cap);
    const Vec inverse = hn::Set(d, 1.0f / args.soft_cap);
    for (int32_t v = 0; v < kPageVectors; ++v) {
      score[v] = hn::Mul(cap, tanh(hn::Mul(score[v], inverse)));
    }
  }
  if (args.mask != nullptr && args.mask[row] != nullptr) {
    uint16_t scratch[kPageSlots];
    const uint16_t* mask = whole_mask(args.mask[row], args.n_slots, scratch);
    const Vec slope = hn::Set(d, args.slope != nullptr ? args.slope[row] : 1.0f);
    for (int32_t v = 0; v < kPageVectors; ++v) {
      score[v] = hn::MulAdd(slope, load(mask + v * kLanes), score[v]);
    }
  }
  if (visible != ~uint64_t{0}) {
    for (int32_t v = 0; v < kPageVectors; ++v) {
      const Vec hidden = hn::Set(d, kMinusInfinity);
      score[v] = hn::IfThenElse(mask_of(visible >> (v * kLanes)), score[v], hidden);
    }
  }
}

/// Largest score; NaN is passed over (x86 returns Max's second operand for it).
HWY_INLINE float max_of(const Vec* score) {
  Vec max = hn::Set(F32(), kMinusInfinity);
  for (int32_t v = 0; v < kPageVectors; ++v) max = hn::Max(score[v], max);
  return hn::GetLane(hn::MaxOfLanes(F32(), max));
}

HWY_INLINE bool any_nan(const Vec* score) {
  bool found = false;
  for (int32_t v = 0; v < kPageVectors; ++v) {
    found |= !hn::AllFalse(F32(), hn::IsNaN(score[v]));
  }
  return found;
}

/// One row's online softmax: p = exp(score - m), and m and s take the page in. Returns the factor
/// by which the output so far shrinks.
HWY_INLINE float fold_row(const Vec* score, float page_max, float* HWY_RESTRICT p, float* m,
                          float* s) {
  const F32 d;
  const float old_max = *m;
  const float new_max = page_max <= old_max ? old_max : page_max;
  const Vec vector_max = hn::Set(d, new_max);
  Vec sum = hn::Zero(d);
  for (int32_t v = 0; v < kPageVectors; ++v) {
    const Vec e = exp(hn::Sub(score[v], vector_max));
    store(e, p + v * kLanes);
    sum = hn::Add(sum, e);
  }
  const float factor = old_max == new_max ? 1.0f : hn::GetLane(exp(hn::Set(d, old_max - new_max)));
  *m = new_max;
  *s = *s * factor + hn::GetLane(hn::SumOfLanes(d, sum));
  return factor;
}

HWY_INLINE void write_scores(const Vec* score, int32_t n_slots, float* to) {
  for (int32_t v = 0; v * kLanes < n_slots; ++v) {
    store_first(score[v], to + v * kLanes, n_slots - v * kLanes);
  }
}

/// Softmax of all rows of the block.
HWY_INLINE void softmax_block(const PageArgs& args, const SoftmaxState& state, RowBlock& block) {
  for (int32_t i = 0; i < block.n; ++i) {
    float* p = block.p + i * kPageSlots;
    const int32_t row = block.row[i];
    Vec score[kPageVectors];
    finish_scores(args, row, block.visible[i], p, score);
    if (args.scores != nullptr) write_scores(score, args.n_slots, args.scores[row]);
    const float page_max = max_of(score);
    if (page_max == kMinusInfinity && !any_nan(score)) {  // K holds infinities: nothing to add
      std::fill_n(p, kPageSlots, 0.0f);
      block.factor[i] = 1.0f;
      block.visible[i] = 0;
      block.all = 0;
      continue;
    }
    block.factor[i] = fold_row(score, page_max, p, state.m + row, state.s + row);
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
    softmax_block(args, state, block);
    output_of_block(args, block, tile);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_ATTEND_INL_H_
