#include "select/page_bounds.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr size_t kLine = 64 / sizeof(uint16_t);  // elements of a cache line
constexpr int32_t kMostRows = 64;                // query rows of one kernel call

size_t z(int64_t n) { return static_cast<size_t>(n); }

uint16_t* aligned(const std::vector<uint16_t>& memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t up = (address + 63) / 64 * 64;
  return const_cast<uint16_t*>(memory.data()) + (up - address) / sizeof(uint16_t);
}

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

size_t PageBounds::head_elements(int32_t head_dim) {
  const size_t n = z(kChunkPages) * z(int64_t{2} * head_dim);
  return (n + kLine - 1) / kLine * kLine;
}

size_t PageBounds::chunk_elements(int32_t n_kv_heads, int32_t head_dim) {
  return z(n_kv_heads) * head_elements(head_dim) + kLine;
}

int64_t PageBounds::chunk_bytes(int32_t n_kv_heads, int32_t head_dim) {
  return static_cast<int64_t>(chunk_elements(n_kv_heads, head_dim) * sizeof(uint16_t));
}

const uint16_t* PageBounds::chunk_of(int32_t page, int32_t head) const {
  return aligned(chunks_[z(page / kChunkPages)]) + z(head) * head_elements(head_dim_);
}

void PageBounds::set_shape(int32_t first_slot, int32_t n_kv_heads, int32_t head_dim) {
  assert(head_dim <= kMostDim);
  if (n_kv_heads != n_kv_heads_ || head_dim != head_dim_) clear();
  if (first_slot != first_slot_) n_pages_ = 0;
  first_slot_ = first_slot;
  n_kv_heads_ = n_kv_heads;
  head_dim_ = head_dim;
}

void PageBounds::forget_from(int32_t slot) {
  n_pages_ = std::min(n_pages_, std::max(0, slot - first_slot_) / kTokens);
}

void PageBounds::grow(int32_t n) {
  if (n <= n_pages_) return;
  n_pages_ = n;
  const size_t n_chunks = z((n + kChunkPages - 1) / kChunkPages);
  while (chunks_.size() < n_chunks) {
    chunks_.emplace_back(chunk_elements(n_kv_heads_, head_dim_));
  }
}

void PageBounds::set(int32_t page, int32_t head, const float* largest, const float* smallest,
                     const KvKernels& kernels) {
  assert(page < n_pages_);
  std::array<float, size_t{2} * kMostDim> row;
  for (int32_t d = 0; d < head_dim_; ++d) {
    row[z(d)] = round_up(largest[d]);
    row[z(head_dim_ + d)] = -round_up(-smallest[d]);
  }
  kernels.store_k(const_cast<uint16_t*>(chunk_of(page, head)), 2 * head_dim_, page % kChunkPages, 1,
                  row.data(), ptrdiff_t{2} * head_dim_);
}

void PageBounds::score(const float* q, ptrdiff_t q_head, int32_t n_heads, const KvKernels& kernels,
                       ParallelFor& parallel, std::vector<float>& split,
                       std::span<float> scores) const {
  assert(scores.size() == z(n_pages_));
  // q_d * largest_d is the larger product where q_d > 0, else q_d * smallest_d is.
  const ptrdiff_t width = ptrdiff_t{2} * head_dim_;
  if (split.size() < z(n_heads * width)) split.resize(z(n_heads * width));
  for (int32_t h = 0; h < n_heads; ++h) {
    for (int32_t d = 0; d < head_dim_; ++d) {
      const float value = q[h * q_head + d];
      split[z(h * width + d)] = std::max(value, 0.0F);
      split[z(h * width + head_dim_ + d)] = std::min(value, 0.0F);
    }
  }
  alignas(64) static constexpr std::array<uint16_t, kPageSlots> kNoValues{};
  const int32_t q_per_kv = n_heads / n_kv_heads_;
  const int64_t n_chunks = (n_pages_ + kChunkPages - 1) / kChunkPages;
  parallel.run(n_chunks, [&](int64_t chunk, int32_t /*worker*/) {
    const auto first = static_cast<int32_t>(chunk) * kChunkPages;
    const int32_t n = std::min(kChunkPages, n_pages_ - first);
    float* best = scores.data() + first;
    std::fill_n(best, n, -std::numeric_limits<float>::infinity());
    std::array<float, size_t{kMostRows} * kChunkPages> values;
    std::array<float, kMostRows> m, s, acc;
    std::array<const float*, kMostRows> queries;
    std::array<float*, kMostRows> rows;
    for (int32_t begin = 0; begin < n_heads;) {
      const int32_t kv_head = begin / q_per_kv;
      const int32_t n_rows = std::min(kMostRows, (kv_head + 1) * q_per_kv - begin);
      for (int32_t r = 0; r < n_rows; ++r) {
        queries[z(r)] = split.data() + (begin + r) * width;
        rows[z(r)] = values.data() + z(r) * kChunkPages;
        m[z(r)] = -std::numeric_limits<float>::infinity();
        s[z(r)] = acc[z(r)] = 0;
      }
      PageArgs args{};
      args.k = chunk_of(first, kv_head);
      args.v = kNoValues.data();
      args.head_dim_k = static_cast<int32_t>(width);
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
  });
}

size_t PageBounds::bytes() const {
  size_t n = chunks_.capacity() * sizeof(std::vector<uint16_t>);
  for (const auto& chunk : chunks_) n += chunk.capacity() * sizeof(uint16_t);
  return n;
}

void PageBounds::trim() {
  chunks_.resize(z((n_pages_ + kChunkPages - 1) / kChunkPages));
  chunks_.shrink_to_fit();
}

}  // namespace kvasir
