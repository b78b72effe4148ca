#include "select/page_bounds.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr int32_t kMostRows = 64;  // query rows of one kernel call

size_t z(int64_t n) { return static_cast<size_t>(n); }

// The next binary16 towards +infinity.
uint16_t next_up(uint16_t half) {
  if (half == kHalfInfinity) return half;
  if ((half & 0x7FFFU) == 0) return 1;  // both zeros
  return static_cast<uint16_t>((half & 0x8000U) != 0 ? half - 1 : half + 1);
}

// The least binary16 that is not below x, as the float of the same value.
float round_up(float x) {
  const uint16_t half = float_to_half(x);
  const float rounded = half_to_float(half);
  return rounded < x ? half_to_float(next_up(half)) : rounded;
}

}  // namespace

size_t PageBounds::head_bytes(int32_t head_dim) const {
  return z(kChunkItems) * z(int64_t{2} * head_dim) * sizeof(uint16_t);
}

void PageBounds::set(int32_t item, int32_t n, int32_t head, const float* keys,
                     const KvKernels& kernels) {
  std::array<float, kMostDim> largest, smallest;
  for (int32_t page = item; page < item + n; ++page) {
    std::copy_n(keys, head_dim(), largest.begin());
    std::copy_n(keys, head_dim(), smallest.begin());
    keys += head_dim();
    for (int32_t i = 1; i < kTokens; ++i, keys += head_dim()) {
      for (int32_t d = 0; d < head_dim(); ++d) {
        largest[z(d)] = std::max(largest[z(d)], keys[d]);
        smallest[z(d)] = std::min(smallest[z(d)], keys[d]);
      }
    }
    set_bounds(page, head, largest.data(), smallest.data(), kernels);
  }
}

void PageBounds::set_bounds(int32_t page, int32_t head, const float* largest, const float* smallest,
                            const KvKernels& kernels) {
  assert(page < n_items());
  std::array<float, size_t{2} * kMostDim> row;
  for (int32_t d = 0; d < head_dim(); ++d) {
    row[z(d)] = round_up(largest[d]);
    row[z(head_dim() + d)] = -round_up(-smallest[d]);
  }
  kernels.store_k(const_cast<uint16_t*>(rows_at(page, head)), 2 * head_dim(), page % kChunkItems, 1,
                  row.data(), ptrdiff_t{2} * head_dim());
}

// Best of all query heads for the pages of one chunk; split: the queries' halves.
void PageBounds::score_chunk(int32_t chunk, int32_t n_heads, const KvKernels& kernels,
                             const float* split, std::span<float> scores) const {
  alignas(64) static constexpr std::array<uint16_t, kPageSlots> kNoValues{};
  const int32_t first = chunk * kChunkItems;
  const int32_t n = std::min(kChunkItems, n_items() - first);
  const int32_t width = 2 * head_dim();
  const int32_t q_per_kv = n_heads / n_kv_heads();
  float* best = scores.data() + first;
  std::fill_n(best, n, -std::numeric_limits<float>::infinity());
  std::array<float, size_t{kMostRows} * kChunkItems> values;
  std::array<float, kMostRows> m, s, acc;
  std::array<const float*, kMostRows> queries;
  std::array<float*, kMostRows> rows;
  for (int32_t begin = 0; begin < n_heads;) {
    const int32_t kv_head = begin / q_per_kv;
    const int32_t n_rows = std::min(kMostRows, (kv_head + 1) * q_per_kv - begin);
    for (int32_t r = 0; r < n_rows; ++r) {
      queries[z(r)] = split + ptrdiff_t{begin + r} * width;
      rows[z(r)] = values.data() + z(r) * kChunkItems;
      m[z(r)] = -std::numeric_limits<float>::infinity();
      s[z(r)] = acc[z(r)] = 0;
    }
    PageArgs args{};
    args.k = rows_at(first, kv_head);
    args.v = kNoValues.data();
    args.head_dim_k = width;
    args.head_dim_v = 1;
    args.n_slots = n;
    args.n_rows = n_rows;
    args.q = queries.data();
    args.scale = 1;
    args.scores = rows.data();
    kernels.attend_page(args, {m.data(), s.data(), acc.data(), 1});
    for (int32_t r = 0; r < n_rows; ++r) {
      for (int32_t i = 0; i < n; ++i) best[i] = std::max(best[i], rows[z(r)][i]);
    }
    begin += n_rows;
  }
}

void PageBounds::score(const KeyQueries& queries, const KvKernels& kernels, ParallelFor& parallel,
                       IndexScratch& scratch, std::span<float> scores) const {
  assert(scores.size() == z(n_items()));
  // q_d * largest_d is the larger product where q_d > 0, else q_d * smallest_d is.
  const ptrdiff_t width = ptrdiff_t{2} * head_dim();
  std::vector<float>& split = scratch.queries;
  if (split.size() < z(queries.n_heads * width)) split.resize(z(queries.n_heads * width));
  for (int32_t h = 0; h < queries.n_heads; ++h) {
    for (int32_t d = 0; d < head_dim(); ++d) {
      const float value = queries.q[h * queries.q_head + d];
      split[z(h * width + d)] = std::max(value, 0.0F);
      split[z(h * width + head_dim() + d)] = std::min(value, 0.0F);
    }
  }
  parallel.run((n_items() + kChunkItems - 1) / kChunkItems, [&](int64_t chunk, int32_t /*worker*/) {
    score_chunk(static_cast<int32_t>(chunk), queries.n_heads, kernels, split.data(), scores);
  });
}

int64_t PageBounds::most_scratch(int64_t /*n_items*/, int64_t n_heads, int64_t head_dim) const {
  return n_heads * 2 * head_dim * int64_t{sizeof(float)};
}

}  // namespace kvasir
