// attend_page_bf16: the tiles of attend_page with pairs of bf16 in place of f32, twice the products
// of an instruction. Few rows are bound by memory and take attend_page. Compiled once, beside the
// AVX-512 table.
#ifndef KVASIR_KERNELS_HIGHWAY_ATTEND_BF16_INL_H_
#define KVASIR_KERNELS_HIGHWAY_ATTEND_BF16_INL_H_

#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "kernels/highway/attend-inl.h"
#include "kernels/highway/vnni-inl.h"

HWY_PUSH_ATTRIBUTES(KVASIR_BF16_ATTRIBUTES)
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

constexpr int32_t kPairDim = (kMaxHeadDim + 1) / 2;

/// One page and the rows of a block as pairs of bf16: of channels in K and q, of slots in V and p.
struct PairTiles {
  HWY_ALIGN uint32_t k[kPairDim * kPageSlots];         // [channel pair][slot]
  HWY_ALIGN uint32_t v[kPageSlots / 2 * kMaxHeadDim];  // [slot pair][channel, padded to vectors]
  HWY_ALIGN uint32_t q[kBlockRows * kPairDim];         // [row][channel pair]
  HWY_ALIGN uint32_t p[kBlockRows * kPageSlots / 2];   // [row][slot pair]
};

/// sum[i] + the two products of pair i. Not the intrinsic, as in vnni-inl.h.
HWY_INLINE __m512 add_pairs(__m512 sum, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

/// Lane i: bf16 of low[i] below bf16 of high[i].
HWY_INLINE __m512i paired(Vec low, Vec high) {
  const __m512i first =
      _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(low.raw)));
  const __m512i second =
      _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(high.raw)));
  return _mm512_or_si512(first, _mm512_slli_epi32(second, 16));
}

/// 32 consecutive f32 as 16 pairs.
HWY_INLINE __m512i paired_in_order(Vec first, Vec second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second.raw, first.raw));
}

HWY_INLINE void pair_keys(const PageArgs& args, PairTiles& tiles) {
  const int32_t dim = args.head_dim_k;
  for (int32_t slot = 0; slot < args.n_slots; slot += kLaneSlots) {
    const uint16_t* from = args.k + static_cast<ptrdiff_t>(slot) * dim;
    for (int32_t d = 0; d < dim; d += 2) {
      const Vec low = load(from + d * kLaneSlots);
      const Vec high = d + 1 < dim ? load(from + (d + 1) * kLaneSlots) : hn::Zero(F32());
      _mm512_store_si512(tiles.k + d / 2 * kPageSlots + slot, paired(low, high));
    }
  }
}

HWY_INLINE void pair_queries(const RowBlock& block, int32_t dim, PairTiles& tiles) {
  const int32_t n_pairs = (dim + 1) / 2;
  for (int32_t i = 0; i < block.n; ++i) {
    const float* q = block.q[i];
    uint32_t* to = tiles.q + static_cast<ptrdiff_t>(i) * n_pairs;
    for (int32_t d = 0; d < dim; d += 2 * kLanes) {
      const __m512i pairs = paired_in_order(first_lanes(q + d, dim - d),
                                            first_lanes(q + d + kLanes, dim - d - kLanes));
      _mm512_mask_storeu_epi32(to + d / 2, first_lane_mask(n_pairs - d / 2), pairs);
    }
  }
}

HWY_INLINE int32_t padded(int32_t dim) { return (dim + kLanes - 1) / kLanes * kLanes; }

/// Slots of `slots` alone; the others count as 0, since their V may be NaN.
HWY_INLINE void pair_values(const PageArgs& args, uint64_t slots, PairTiles& tiles) {
  const int32_t dim = args.head_dim_v;
  const auto row = [&](int32_t slot, int32_t d) HWY_ATTR {
    if (((slots >> slot) & 1u) == 0) return hn::Zero(F32());
    return load_first(args.v + static_cast<ptrdiff_t>(slot) * dim + d, dim - d);
  };
  for (int32_t slot = 0; slot < args.n_slots; slot += 2) {
    for (int32_t d = 0; d < dim; d += kLanes) {
      _mm512_store_si512(tiles.v + slot / 2 * padded(dim) + d,
                         paired(row(slot, d), row(slot + 1, d)));
    }
  }
}

HWY_INLINE void pair_weights(const RowBlock& block, PairTiles& tiles) {
  for (int32_t i = 0; i < block.n; ++i) {
    const float* p = block.p + i * kPageSlots;
    uint32_t* to = tiles.p + i * kPageSlots / 2;
    for (int32_t slot = 0; slot < kPageSlots; slot += 2 * kLanes) {
      _mm512_store_si512(to + slot / 2, paired_in_order(load(p + slot), load(p + slot + kLanes)));
    }
  }
}

/// sum[r][v] = products of n pairs: a + r * a_stride, one dword for all lanes, with the dwords at
/// b + i * b_stride + v * kLanes.
template <int32_t kRows, int32_t kVectors>
HWY_INLINE void pair_tile(const uint32_t* a, int32_t a_stride, const uint32_t* b, int32_t b_stride,
                          int32_t n, __m512 (&sum)[kRows][kVectors]) {
  for (int32_t i = 0; i < n; ++i) {
    __m512i value[kVectors];
    for (int32_t v = 0; v < kVectors; ++v) {
      value[v] = _mm512_load_si512(b + static_cast<ptrdiff_t>(i) * b_stride + v * kLanes);
    }
    for (int32_t r = 0; r < kRows; ++r) {
      const __m512i pair = broadcast_dword(a + static_cast<ptrdiff_t>(r) * a_stride + i);
      for (int32_t v = 0; v < kVectors; ++v) sum[r][v] = add_pairs(sum[r][v], pair, value[v]);
    }
  }
}

template <int32_t kRows>
HWY_NOINLINE void pair_scores(const PairTiles& tiles, int32_t first_row, int32_t dim, float* p) {
  const int32_t n_pairs = (dim + 1) / 2;
  __m512 sum[kRows][kPageVectors] = {};
  pair_tile(tiles.q + static_cast<ptrdiff_t>(first_row) * n_pairs, n_pairs, tiles.k, kPageSlots,
            n_pairs, sum);
  HWY_UNROLL(4)
  for (int32_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int32_t v = 0; v < kPageVectors; ++v) {
      store(Vec{sum[r][v]}, p + r * kPageSlots + v * kLanes);
    }
  }
}

template <int32_t kRows, int32_t kVectors>
HWY_INLINE void pair_output_tile(const PairTiles& tiles, const RowBlock& block, int32_t first_row,
                                 int32_t n_slots, int32_t dim, int32_t channel) {
  __m512 sum[kRows][kVectors] = {};
  pair_tile(tiles.p + first_row * kPageSlots / 2, kPageSlots / 2, tiles.v + channel, padded(dim),
            (n_slots + 1) / 2, sum);
  HWY_UNROLL(4)
  for (int32_t r = 0; r < kRows; ++r) {
    const Vec factor = hn::Set(F32(), block.factor[first_row + r]);
    HWY_UNROLL(4)
    for (int32_t v = 0; v < kVectors; ++v) {
      const int32_t at = channel + v * kLanes;
      float* to = block.acc[first_row + r] + at;
      const __mmask16 mask = first_lane_mask(dim - at);
      const Vec old{_mm512_maskz_loadu_ps(mask, to)};
      _mm512_mask_storeu_ps(to, mask, hn::MulAdd(old, factor, Vec{sum[r][v]}).raw);
    }
  }
}

template <int32_t kRows>
HWY_NOINLINE void pair_output(const PairTiles& tiles, const RowBlock& block, int32_t first_row,
                              int32_t n_slots, int32_t dim) {
  int32_t channel = 0;
  for (; channel + 4 * kLanes <= dim; channel += 4 * kLanes) {
    pair_output_tile<kRows, 4>(tiles, block, first_row, n_slots, dim, channel);
  }
  for (; channel < dim; channel += kLanes) {
    pair_output_tile<kRows, 1>(tiles, block, first_row, n_slots, dim, channel);
  }
}

/// One block of rows that see something of the page.
HWY_INLINE void attend_pairs(const PageArgs& args, const SoftmaxState& state, RowBlock& block,
                             PairTiles& tiles) {
  pair_queries(block, args.head_dim_k, tiles);
  int32_t i = 0;
  for (; i + kTileRows <= block.n; i += kTileRows) {
    pair_scores<kTileRows>(tiles, i, args.head_dim_k, block.p + i * kPageSlots);
  }
  for (; i < block.n; ++i) pair_scores<1>(tiles, i, args.head_dim_k, block.p + i * kPageSlots);
  softmax_block(args, block, FoldRow{state});
  const uint64_t parted = slots_to_part(args, block);
  pair_values(args, block.any & ~parted, tiles);
  pair_weights(block, tiles);
  for (i = 0; i + kTileRows <= block.n; i += kTileRows) {
    pair_output<kTileRows>(tiles, block, i, args.n_slots, args.head_dim_v);
  }
  for (; i < block.n; ++i) pair_output<1>(tiles, block, i, args.n_slots, args.head_dim_v);
  if (parted != 0) add_parted(args, block, parted);
}

void attend_page_bf16(const PageArgs& args, const SoftmaxState& state) {
  if (args.n_rows <= kDirectRows) return attend_page(args, state);
  assert(args.n_slots >= 1 && args.n_slots <= kPageSlots);
  PairTiles tiles;
  pair_keys(args, tiles);
  for (int32_t first = 0; first < args.n_rows; first += kBlockRows) {
    RowBlock block;
    collect_rows(args, state, first, std::min(first + kBlockRows, args.n_rows), block);
    if (block.n > 0) attend_pairs(args, state, block, tiles);
  }
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_POP_ATTRIBUTES

#endif  // KVASIR_KERNELS_HIGHWAY_ATTEND_BF16_INL_H_
