// Queries as 16-bit integers, and their dot products with a key tile. Compiled once, beside the
// AVX-512 table.
#ifndef KVASIR_KERNELS_HIGHWAY_CODED_SCORES_INL_H_
#define KVASIR_KERNELS_HIGHWAY_CODED_SCORES_INL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/highway/coded_tiles-inl.h"
#include "kernels/highway/row_block-inl.h"

HWY_PUSH_ATTRIBUTES(KVASIR_VNNI_ATTRIBUTES)
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

/// Largest magnitude of a query as an integer: two bytes, unless a sum over `n_channels` of its
/// products with codes of 8 bits were to pass 2^31.
HWY_INLINE float most_query(int32_t n_channels) {
  constexpr float kTwoBytes = 127 * 256;
  return std::min(kTwoBytes, 2147000000.0f / 255.0f / static_cast<float>(n_channels) - 256.0f);
}

/// kLanes halfs of what a block shares, from half `first` on; zero from half `end` on.
HWY_INLINE Vec shared_halfs(const std::byte* shared, int32_t first, int32_t end) {
  const __mmask16 mask = first_lane_mask(end - first);
  const __m256i halfs = _mm256_maskz_loadu_epi16(mask, shared + 2 * static_cast<ptrdiff_t>(first));
  return Vec{_mm512_cvtph_ps(halfs)};
}

/// The high byte of a number, rounded: what is left is a signed byte.
HWY_INLINE Bytes high_byte(Bytes whole) {
  return _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
}

/// One query row, [head_dim], times the scales of channels where they have them, as integers.
/// A row with infinities or NaN gets a step of NaN.
HWY_INLINE void prepare_row(const CodedSide& keys, const std::byte* shared, const float* q,
                            bool eight_bits, const PreparedQueries& to, int32_t row) {
  const Scaling scaling = keys.packing.scaling;
  const bool by_channel = !keys.packing.has_groups();
  const int32_t dim = keys.head_dim;
  const int32_t n_vectors = to.padded() / kLanes;
  Vec scaled[kMaxHeadDim / kLanes];
  Vec largest = hn::Zero(F32());
  Vec check = hn::Zero(F32());
  Vec base = hn::Zero(F32());
  for (int32_t v = 0; v < n_vectors; ++v) {
    const int32_t d = v * kLanes;
    const Vec x = first_lanes(q + d, dim - d);
    check = hn::MulAdd(x, hn::Zero(F32()), check);
    if (scaling == Scaling::kGroupZeroMean) {
      base = hn::MulAdd(x, shared_halfs(shared, d, dim), base);
    } else if (scaling == Scaling::kChannelZero) {
      base = hn::MulAdd(x, shared_halfs(shared + 2 * static_cast<ptrdiff_t>(dim), d, dim), base);
    }
    scaled[v] = by_channel ? hn::Mul(x, shared_halfs(shared, d, dim)) : x;
    largest = hn::Max(largest, hn::Abs(scaled[v]));
  }
  const float most = hn::GetLane(hn::MaxOfLanes(F32(), largest));
  const float most_number =
      eight_bits ? 127.0f : most_query(by_channel ? dim : 2 * keys.packing.group_channels);
  const float inverse = most > 0 ? most_number / most : 0.0f;
  to.step(row) = most / most_number + hn::GetLane(hn::SumOfLanes(F32(), check));
  to.base(row) = hn::GetLane(hn::SumOfLanes(F32(), base));

  const int32_t n_groups = std::max(1, keys.packing.n_groups(dim));
  const int32_t group_vectors = by_channel ? n_vectors : keys.packing.group_channels / kLanes;
  int32_t* high_sums = to.high_sums(row);
  int32_t* low_sums = to.low_sums(row);
  for (int32_t g = 0; g < n_groups; ++g) {
    Bytes high_sum = _mm512_setzero_si512();
    Bytes low_sum = _mm512_setzero_si512();
    const int32_t end = g + 1 == n_groups ? n_vectors : (g + 1) * group_vectors;
    for (int32_t v = g * group_vectors; v < end; ++v) {
      const Vec number = hn::Mul(scaled[v], hn::Set(F32(), inverse));
      const __mmask16 ordered = _mm512_cmp_ps_mask(number.raw, number.raw, _CMP_ORD_Q);
      const Bytes whole = _mm512_maskz_cvtps_epi32(ordered, number.raw);
      const Bytes high = eight_bits ? whole : high_byte(whole);
      const Bytes low =
          eight_bits ? _mm512_setzero_si512() : _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 8));
      high_sum = _mm512_add_epi32(high_sum, high);
      low_sum = _mm512_add_epi32(low_sum, low);
      _mm_store_si128(reinterpret_cast<__m128i*>(to.high(row) + v * kLanes),
                      _mm512_cvtepi32_epi8(high));
      _mm_store_si128(reinterpret_cast<__m128i*>(to.low(row) + v * kLanes),
                      _mm512_cvtepi32_epi8(low));
    }
    high_sums[g] = _mm512_reduce_add_epi32(high_sum);
    low_sums[g] = _mm512_reduce_add_epi32(low_sum);
  }
}

/// Makes all rows ready for keys with these shared bytes.
HWY_INLINE void prepare(const CodedSide& keys, const std::byte* shared, CodedQueries& queries) {
  if (queries.prepared && queries.shared == shared) return;
  const PreparedQueries to(queries.memory, queries.n_rows, keys.head_dim);
  for (int32_t r = 0; r < queries.n_rows; ++r)
    prepare_row(keys, shared, queries.q[r], queries.eight_bits, to, r);

  queries.prepared = true;
  queries.shared = shared;
}

/// What score tiles read of a page's keys.
struct KeyPage {
  const uint8_t* tile;
  bool in_place;  // no tile was made, so nothing of the next page was fetched meanwhile
  const SlotScales* scales;
  bool flipped;         // codes are 128 higher than they mean
  bool has_zero;        // of slots
  int32_t n_quads;      // of channels
  int32_t group_quads;  // of a group; the last one takes what is left
};

/// q . k of kRows prepared rows (`rows` indexes them) and kVectors x 16 slots from `slot` on.
template <int32_t kRows, int32_t kVectors, bool kLow>
HWY_INLINE void coded_score_tile(const KeyPage& page, const PreparedQueries& queries,
                                 const int32_t* rows, int32_t slot, __mmask64 slots, float* p,
                                 Prefetcher& ahead) {
  // In memory between groups: registers are for the sums of one.
  HWY_ALIGN float sums[kRows][kVectors][kLanes];
  const int8_t* high_bytes[kRows];
  const int8_t* low_bytes[kRows];
  for (int32_t r = 0; r < kRows; ++r) {
    high_bytes[r] = queries.high(rows[r]);
    low_bytes[r] = queries.low(rows[r]);
  }
  const int32_t n_groups = std::max(1, page.scales->n_groups);
  for (int32_t g = 0; g < n_groups; ++g) {
    Bytes high[kRows][kVectors], low[kRows][kVectors];
    for (int32_t r = 0; r < kRows; ++r) {
      for (int32_t v = 0; v < kVectors; ++v) high[r][v] = low[r][v] = _mm512_setzero_si512();
    }
    const int32_t end = g + 1 == n_groups ? page.n_quads : (g + 1) * page.group_quads;
    for (int32_t quad = g * page.group_quads; quad < end; ++quad) {
      const uint8_t* from = page.tile + quad * 4 * kPageSlots + slot * 4;
      ahead.step();
      if (page.in_place) ahead.step();
      Bytes key[kVectors];
      for (int32_t v = 0; v < kVectors; ++v) key[v] = _mm512_load_si512(from + v * 64);
      for (int32_t r = 0; r < kRows; ++r) {
        const Bytes h = broadcast_dword(high_bytes[r] + 4 * quad);
        const Bytes l = kLow ? broadcast_dword(low_bytes[r] + 4 * quad) : h;
        for (int32_t v = 0; v < kVectors; ++v) {
          high[r][v] = add_dot(high[r][v], key[v], h);
          if constexpr (kLow) low[r][v] = add_dot(low[r][v], key[v], l);
        }
      }
    }
    HWY_UNROLL(4)
    for (int32_t r = 0; r < kRows; ++r) {
      const int32_t q_sum =
          (kLow ? 256 : 1) * queries.high_sums(rows[r])[g] + queries.low_sums(rows[r])[g];
      const Bytes shift = _mm512_set1_epi32(page.flipped ? 128 * q_sum : 0);
      HWY_UNROLL(4)
      for (int32_t v = 0; v < kVectors; ++v) {
        const Bytes whole = kLow ? joined(high[r][v], low[r][v]) : high[r][v];
        Vec sum = to_float(_mm512_sub_epi32(whole, shift));
        const int32_t at = g * kPageSlots + slot + v * kLanes;
        if (page.scales->n_groups > 0) {
          const Vec before = g == 0 ? hn::Zero(F32()) : load(sums[r][v]);
          sum = hn::MulAdd(sum, load(page.scales->scale + at), before);
          if (page.has_zero) {
            sum = hn::MulAdd(load(page.scales->zero + at),
                             hn::Set(F32(), static_cast<float>(q_sum)), sum);
          }
        }
        store(sum, sums[r][v]);
      }
    }
  }
  for (int32_t r = 0; r < kRows; ++r) {
    const Vec step = hn::Set(F32(), queries.step(rows[r]));
    const Vec base = hn::Set(F32(), queries.base(rows[r]));
    for (int32_t v = 0; v < kVectors; ++v) {
      const auto mask = static_cast<__mmask16>(slots >> (slot + v * kLanes));
      const Vec score = hn::MulAdd(load(sums[r][v]), step, base);
      _mm512_mask_storeu_ps(p + r * kPageSlots + slot + v * kLanes, mask, score.raw);
    }
  }
}

template <int32_t kRows, bool kLow>
HWY_NOINLINE void coded_score_rows(const KeyPage& page, const PreparedQueries& queries,
                                   const int32_t* rows, int32_t first, int32_t end, float* p,
                                   Prefetcher& ahead) {
  constexpr int32_t kVectors = kRows <= 3 ? 4 : 2;
  const __mmask64 slots = first_slots(end) & ~first_slots(first);
  int32_t slot = first / kLanes * kLanes;
  for (; slot + (kVectors - 1) * kLanes < end; slot += kVectors * kLanes) {
    coded_score_tile<kRows, kVectors, kLow>(page, queries, rows, slot, slots, p, ahead);
  }
  for (; slot < end; slot += kLanes) {
    coded_score_tile<kRows, 1, kLow>(page, queries, rows, slot, slots, p, ahead);
  }
}

/// q . k of the whole block with slots [first, end).
template <bool kLow>
HWY_INLINE void coded_scores(const KeyPage& page, const PreparedQueries& queries, int32_t first_row,
                             int32_t first, int32_t end, RowBlock& block, Prefetcher& ahead) {
  for (int32_t i = 0; i < block.n; i += kTileRows) {
    int32_t rows[kTileRows];
    const int32_t n = std::min(kTileRows, block.n - i);
    for (int32_t r = 0; r < n; ++r) rows[r] = first_row + block.row[i + r];
    float* p = block.p + i * kPageSlots;
    switch (n) {
      case 1:
        coded_score_rows<1, kLow>(page, queries, rows, first, end, p, ahead);
        break;
      case 2:
        coded_score_rows<2, kLow>(page, queries, rows, first, end, p, ahead);
        break;
      case 3:
        coded_score_rows<3, kLow>(page, queries, rows, first, end, p, ahead);
        break;
      default:
        coded_score_rows<4, kLow>(page, queries, rows, first, end, p, ahead);
        break;
    }
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_POP_ATTRIBUTES

#endif  // KVASIR_KERNELS_HIGHWAY_CODED_SCORES_INL_H_
