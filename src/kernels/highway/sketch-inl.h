// score_sketch: sums of table look-ups, 16 entries at a time for a whole vector of tokens. Compiled
// once per instruction set.
#if defined(KVASIR_KERNELS_HIGHWAY_SKETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_KERNELS_HIGHWAY_SKETCH_INL_H_
#undef KVASIR_KERNELS_HIGHWAY_SKETCH_INL_H_
#else
#define KVASIR_KERNELS_HIGHWAY_SKETCH_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/highway/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

using SketchBytes = hn::CappedTag<uint8_t, kPageSlots>;
using SketchPairs = hn::Repartition<uint16_t, SketchBytes>;

/// Sums of the tokens of one vector: even ones, then odd ones. Two entries are below 2^8, and
/// 2^8 kMaxHeadDim / 4 below 2^16.
HWY_INLINE void add_tables(const SketchArgs& args, const uint8_t* HWY_RESTRICT tables,
                           int32_t first, uint16_t* HWY_RESTRICT even, uint16_t* HWY_RESTRICT odd) {
  static_assert(kMaxHeadDim / 4 * 2 * 127 <= 0xFFFF);
  const SketchBytes d;
  const SketchPairs pairs;
  const auto low = hn::Set(d, uint8_t{15});
  const auto of_even = hn::Set(pairs, uint16_t{0xFF});
  auto sum_even = hn::Zero(pairs);
  auto sum_odd = hn::Zero(pairs);
  const uint8_t* codes = args.codes + first;
  for (int32_t b = 0; b < args.n_bytes; ++b, codes += kPageSlots, tables += 32) {
    const auto code = hn::LoadU(d, codes);
    const auto high = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(pairs, code))), low);
    const auto both = hn::BitCast(
        pairs, hn::Add(hn::TableLookupBytes(hn::LoadDup128(d, tables), hn::And(code, low)),
                       hn::TableLookupBytes(hn::LoadDup128(d, tables + 16), high)));
    sum_even = hn::Add(sum_even, hn::And(both, of_even));
    sum_odd = hn::Add(sum_odd, hn::ShiftRight<8>(both));
  }
  hn::StoreU(sum_even, pairs, even);
  hn::StoreU(sum_odd, pairs, odd);
}

/// Integers as f32, in the order of tokens.
HWY_INLINE void in_order(const uint16_t* HWY_RESTRICT even, const uint16_t* HWY_RESTRICT odd,
                         float* HWY_RESTRICT out) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const hn::Rebind<uint16_t, F32> du;
  for (int32_t i = 0; i < kPageSlots / 2; i += kLanes) {
    const Vec a = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(du, even + i)));
    const Vec b = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(du, odd + i)));
    hn::StoreInterleaved2(a, b, d, out + 2 * i);
  }
}

HWY_INLINE ScoreSums sum_scores(const float* HWY_RESTRICT scores) {
  const F32 d;
  Vec most = hn::Set(d, kMinusInfinity);
  for (int32_t i = 0; i < kPageSlots; i += kLanes) most = hn::Max(most, load(scores + i));
  most = hn::MaxOfLanes(d, most);
  Vec sum = hn::Zero(d);
  for (int32_t i = 0; i < kPageSlots; i += kLanes) {
    sum = hn::Add(sum, exp(hn::Sub(load(scores + i), most)));
  }
  return {hn::GetLane(most), hn::GetLane(hn::SumOfLanes(d, sum))};
}

void score_sketch(const SketchArgs& args, ScoreSums* sums) {
  constexpr auto kTokens = static_cast<int32_t>(hn::MaxLanes(SketchBytes()));
  const F32 d;
  HWY_ALIGN uint16_t even[kPageSlots / 2];
  HWY_ALIGN uint16_t odd[kPageSlots / 2];
  HWY_ALIGN float scores[kPageSlots];
  for (int32_t row = 0; row < args.n_rows; ++row) {
    const SketchQuery& query = args.queries[row];
    for (int32_t first = 0; first < kPageSlots; first += kTokens) {
      add_tables(args, query.tables, first, even + first / 2, odd + first / 2);
    }
    in_order(even, odd, scores);
    const Vec step = hn::Set(d, query.step);
    const Vec offset = hn::Set(d, query.offset);
    for (int32_t i = 0; i < kPageSlots; i += kLanes) {
      const Vec key = hn::MulAdd(load(scores + i), step, offset);
      store(hn::Mul(key, load(args.steps + i)), scores + i);
    }
    std::fill(scores + args.n_slots, scores + kPageSlots, kMinusInfinity);
    sums[row] = sum_scores(scores);
    std::copy_n(scores, args.n_slots, args.scores[row]);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_KERNELS_HIGHWAY_SKETCH_INL_H_
