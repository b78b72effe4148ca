// The query rows that share one pass over a page, what they see of it, and their online softmax.
//
// A row is collected if its mask shows it at least one slot; how rows are grouped does not change
// a bit of any row's result. Compiled once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_ROW_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_ROW_BLOCK_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_ROW_BLOCK_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_ROW_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"
#include "kernels/highway/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

constexpr int32_t kBlockRows = 64;  // query rows that share one conversion of the page

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

/// Largest score; NaN is passed over (Max gives its second operand for it on x86, the number on
/// NEON).
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

/// Softmax of all rows of the block. `fold(score, page_max, p, row, i)` is fold_row for row `row`
/// of the arguments, i of the block; what it returns becomes the row's factor.
template <typename Fold>
HWY_INLINE void softmax_block(const PageArgs& args, RowBlock& block, const Fold& fold) {
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
    block.factor[i] = fold(score, page_max, p, row, i);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_ROW_BLOCK_INL_H_
