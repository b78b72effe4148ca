// attend_coded: integer scores, the softmax of all tables, and probabilities as integers times V.
//
// Each group of channels of V has its own scale per slot, which enters the probabilities before
// they become integers; what one page adds is scaled once. Compiled once, beside the AVX-512 table.
#ifndef KVASIR_KERNELS_HIGHWAY_ATTEND_CODED_INL_H_
#define KVASIR_KERNELS_HIGHWAY_ATTEND_CODED_INL_H_

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "kernels/highway/coded_scores-inl.h"
#include "kernels/highway/page_softmax-inl.h"

HWY_PUSH_ATTRIBUTES(KVASIR_VNNI_ATTRIBUTES)
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

constexpr float kMostWeight = 65535;  // of p * scale as an integer

/// What output tiles read of a page's values.
struct ValuePage {
  const uint8_t* tile;
  const CodedSide* side;
  /// Scales so that the largest of a group is kMostWeight.
  SlotScales scales;
  float step[kMostGroups];  // scale of a slot = step * what stands in `scales`
};

HWY_INLINE void normalize_scales(ValuePage& page) {
  for (int32_t g = 0; g < page.scales.n_groups; ++g) {
    float* scale = page.scales.scale + g * kPageSlots;
    Vec most = hn::Zero(F32());
    for (int32_t v = 0; v < kPageVectors; ++v) most = hn::Max(most, load(scale + v * kLanes));
    const float largest = hn::GetLane(hn::MaxOfLanes(F32(), most));
    const Vec factor = hn::Set(F32(), largest > 0 ? kMostWeight / largest : 0.0f);
    for (int32_t v = 0; v < kPageVectors; ++v) {
      store(hn::Mul(load(scale + v * kLanes), factor), scale + v * kLanes);
    }
    page.step[g] = largest / kMostWeight;
  }
}

/// One row's p times the scales of a group, as 16-bit numbers.
struct WeightRow {
  HWY_ALIGN uint8_t high[kPageSlots];
  HWY_ALIGN uint8_t low[kPageSlots];
  float step;  // p * scale ~ step * number
  float zero;  // sum over slots of p * zero; of p where channels have the zeros
};

HWY_INLINE Vec weights_at(const float* p, __mmask64 slots, int32_t slot) {
  return Vec{_mm512_maskz_loadu_ps(static_cast<__mmask16>(slots >> slot), p + slot)};
}

/// @param scale  [kPageSlots] of slots, largest kMostWeight, or null: kMostWeight for all
HWY_INLINE void make_weights(const float* p, __mmask64 slots, const float* scale, WeightRow& row) {
  Bytes numbers[kPageVectors];
  for (int32_t v = 0; v < kPageVectors; ++v) {
    const Vec factor = scale == nullptr ? hn::Set(F32(), kMostWeight) : load(scale + v * kLanes);
    numbers[v] = _mm512_cvtps_epi32(hn::Mul(weights_at(p, slots, v * kLanes), factor).raw);
  }
  Bytes high, low;
  split_bytes(numbers, high, low);
  _mm512_store_si512(row.high, high);
  _mm512_store_si512(row.low, low);
}

/// Sum over slots of p * zero; of p where zero is null.
HWY_INLINE float sum_zeros(const float* p, __mmask64 slots, const float* zero) {
  Vec sum = hn::Zero(F32());
  for (int32_t v = 0; v < kPageVectors; ++v) {
    const Vec factor = zero == nullptr ? hn::Set(F32(), 1.0f) : load(zero + v * kLanes);
    sum = hn::MulAdd(weights_at(p, slots, v * kLanes), factor, sum);
  }
  return hn::GetLane(hn::SumOfLanes(F32(), sum));
}

/// Where one tile of output goes.
struct OutputRows {
  float* acc[kTileRows];
  float weight[kTileRows];
  float factor[kTileRows];
};

/// Adds weights . V to kVectors x 16 channels from `channel` on; nothing at or past `end`.
template <int32_t kRows, int32_t kVectors>
HWY_INLINE void coded_output_tile(const ValuePage& page, const std::byte* shared,
                                  const WeightRow* weights, int32_t first_quad, int32_t end_quad,
                                  int32_t channel, int32_t end, const OutputRows& out,
                                  Prefetcher& ahead) {
  const int32_t n_channels = (page.side->head_dim + kChunk - 1) / kChunk * kChunk;
  Bytes high[kRows][kVectors], low[kRows][kVectors];
  for (int32_t r = 0; r < kRows; ++r) {
    for (int32_t v = 0; v < kVectors; ++v) high[r][v] = low[r][v] = _mm512_setzero_si512();
  }
  for (int32_t quad = first_quad; quad < end_quad; ++quad) {
    const uint8_t* from = page.tile + (static_cast<ptrdiff_t>(quad) * n_channels + channel) * 4;
    ahead.step();
    Bytes value[kVectors];
    for (int32_t v = 0; v < kVectors; ++v) value[v] = _mm512_load_si512(from + v * 64);
    for (int32_t r = 0; r < kRows; ++r) {
      const Bytes h = broadcast_dword(weights[r].high + split_offset(quad));
      const Bytes l = broadcast_dword(weights[r].low + split_offset(quad));
      for (int32_t v = 0; v < kVectors; ++v) {
        high[r][v] = add_dot(high[r][v], h, value[v]);
        low[r][v] = add_dot(low[r][v], l, value[v]);
      }
    }
  }
  const Scaling scaling = page.side->packing.scaling;
  const int32_t dim = page.side->head_dim;
  HWY_UNROLL(4)
  for (int32_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (int32_t v = 0; v < kVectors; ++v) {
      const int32_t at = channel + v * kLanes;
      const __mmask16 mask = first_lane_mask(end - at);
      Vec sum = hn::Mul(to_float(joined(high[r][v], low[r][v])), hn::Set(F32(), weights[r].step));
      if (scaling == Scaling::kGroupZero) {
        sum = hn::Add(sum, hn::Set(F32(), weights[r].zero));
      } else if (scaling == Scaling::kChannel || scaling == Scaling::kChannelZero) {
        sum = hn::Mul(sum, shared_halfs(shared, at, dim));
        if (scaling == Scaling::kChannelZero) {
          const std::byte* zeros = shared + 2 * static_cast<ptrdiff_t>(dim);
          sum = hn::MulAdd(shared_halfs(zeros, at, dim), hn::Set(F32(), weights[r].zero), sum);
        }
      }
      float* to = out.acc[r] + at;
      const Vec old{_mm512_maskz_loadu_ps(mask, to)};
      const Vec acc = hn::MulAdd(old, hn::Set(F32(), out.factor[r]), sum);
      _mm512_mask_storeu_ps(to, mask, acc.raw);
    }
  }
}

template <int32_t kRows>
HWY_NOINLINE void coded_output_rows(const ValuePage& page, const SharedRun& run, int32_t first,
                                    const float* p, const OutputRows& out, Prefetcher& ahead) {
  const __mmask64 slots = first_slots(run.end) & ~first_slots(first);
  const Packing& packing = page.side->packing;
  const int32_t dim = page.side->head_dim;
  const int32_t n_groups = std::max(1, page.scales.n_groups);
  WeightRow weights[kRows];
  for (int32_t g = 0; g < n_groups; ++g) {
    const bool of_slots = page.scales.n_groups > 0;
    const float* scale = of_slots ? page.scales.scale + g * kPageSlots : nullptr;
    const float* zero = of_slots ? page.scales.zero + g * kPageSlots : nullptr;
    const float step = of_slots ? page.step[g] : 1 / kMostWeight;
    for (int32_t r = 0; r < kRows; ++r) {
      const float* p_row = p + r * kPageSlots;
      make_weights(p_row, slots, scale, weights[r]);
      weights[r].step = step * out.weight[r];
      weights[r].zero = packing.has_zero() ? sum_zeros(p_row, slots, zero) * out.weight[r] : 0.0f;
    }
    const int32_t end = g + 1 == n_groups ? dim : (g + 1) * packing.group_channels;
    int32_t channel = of_slots ? g * packing.group_channels : 0;
    for (; channel + kLanes < end; channel += 2 * kLanes) {
      coded_output_tile<kRows, 2>(page, run.shared, weights, first / 4, (run.end + 3) / 4, channel,
                                  end, out, ahead);
    }
    if (channel < end) {
      coded_output_tile<kRows, 1>(page, run.shared, weights, first / 4, (run.end + 3) / 4, channel,
                                  end, out, ahead);
    }
  }
}

/// p.V of the whole block with slots [first, run.end).
HWY_INLINE void coded_output(const ValuePage& page, const SharedRun& run, int32_t first,
                             const RowBlock& block, const float* weights, Prefetcher& ahead) {
  for (int32_t i = 0; i < block.n; i += kTileRows) {
    OutputRows out;
    const int32_t n = std::min(kTileRows, block.n - i);
    for (int32_t r = 0; r < n; ++r) {
      out.acc[r] = block.acc[i + r];
      out.weight[r] = weights[i + r];
      out.factor[r] = first == 0 ? block.factor[i + r] : 1.0f;
    }
    const float* p = block.p + i * kPageSlots;
    switch (n) {
      case 1:
        coded_output_rows<1>(page, run, first, p, out, ahead);
        break;
      case 2:
        coded_output_rows<2>(page, run, first, p, out, ahead);
        break;
      case 3:
        coded_output_rows<3>(page, run, first, p, out, ahead);
        break;
      default:
        coded_output_rows<4>(page, run, first, p, out, ahead);
        break;
    }
  }
}

void attend_coded(const PageArgs& args, const CodedPage& page, CodedQueries& queries,
                  int32_t first_row, const SoftmaxState& state) {
  assert(args.n_slots >= 1 && args.n_slots <= kPageSlots);
  assert(attends_coded(page.k.packing, page.k.head_dim, page.v.packing, page.v.head_dim));
  assert(args.head_dim_k == page.k.head_dim && args.head_dim_v == page.v.head_dim);
  assert(first_row >= 0 && first_row + args.n_rows <= queries.n_rows);
  HWY_ALIGN uint8_t keys[kMostChunks * kChunk * kPageSlots];
  HWY_ALIGN uint8_t values[kMostChunks * kChunk * kPageSlots];
  SlotScales key_scales;
  read_scales(page.k, args.n_slots, key_scales);
  Prefetcher next_keys = fetch_rows(page.next_k, page.k);
  Prefetcher next_values = fetch_rows(page.next_v, page.v);
  const uint8_t* tile = key_tile(page.k, args.n_slots, next_keys, keys);
  const Packing& packing = page.k.packing;
  const KeyPage key_page{tile,
                         tile != keys,
                         &key_scales,
                         packing.levels == Levels::kSigned,
                         packing.has_zero(),
                         (page.k.head_dim + 3) / 4,
                         packing.has_groups() ? packing.group_channels / 4 : 0};
  ValuePage value_page;
  value_page.side = &page.v;
  bool have_values = false;
  const PreparedQueries prepared(queries.memory, queries.n_rows, page.k.head_dim);
  for (int32_t from = 0; from < args.n_rows; from += kBlockRows) {
    RowBlock block;
    collect_rows(args, state, from, std::min(from + kBlockRows, args.n_rows), block);
    if (block.n == 0) continue;
    for (int32_t run = 0, first = 0; run < page.k.n_runs; ++run) {
      const SharedRun& keys_of_run = page.k.runs[static_cast<size_t>(run)];
      prepare(page.k, keys_of_run.shared, queries);
      queries.eight_bits ? coded_scores<false>(key_page, prepared, first_row, first,
                                               keys_of_run.end, block, next_keys)
                         : coded_scores<true>(key_page, prepared, first_row, first, keys_of_run.end,
                                              block, next_keys);
      first = keys_of_run.end;
    }
    PageSums sums;
    softmax_page(args, state, block, sums);
    if (!have_values) {
      read_scales(page.v, args.n_slots, value_page.scales);
      normalize_scales(value_page);
      while (next_keys.at < next_keys.end) next_keys.step();
      value_page.tile = value_tile(page.v, args.n_slots, next_values, values);
      have_values = true;
    }
    for (int32_t run = 0, first = 0; run < page.v.n_runs; ++run) {
      const SharedRun& values_of_run = page.v.runs[static_cast<size_t>(run)];
      coded_output(value_page, values_of_run, first, block, sums.weight, next_values);
      first = values_of_run.end;
    }
    while (next_values.at < next_values.end) next_values.step();
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_POP_ATTRIBUTES

#endif  // KVASIR_KERNELS_HIGHWAY_ATTEND_CODED_INL_H_
