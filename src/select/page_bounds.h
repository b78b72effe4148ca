// Bounds of the keys of consecutive tokens, page by page: what Quest (Tang et al., arXiv
// 2406.10774, section 3.2) keeps of a layer beside its rows.
//
// For 16 tokens, each KV head and channel: the largest and the smallest value of their keys, as
// attention reads them. sum_d max(q_d * largest_d, q_d * smallest_d) is then at least q.k for each
// of the 16. Bounds are f16, rounded outwards: 1/16 of the bytes of f16 rows. Pages are numbered
// from the slot of the first on; a page is made once, and only those behind a row that moved are
// made anew. Different pages may be set on different threads where they lie in different chunks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "kernels/kernels.h"

namespace kvasir {

class PageBounds {
 public:
  static constexpr int32_t kTokens = 16;                ///< of a page
  static constexpr int32_t kChunkPages = kPageSlots;    ///< pages whose bounds lie together
  static constexpr int32_t kMostDim = kMaxHeadDim / 2;  ///< channels of a head

  /// Pages start at this slot, of rows of this shape; forgets what was known of others.
  /// Requires: head_dim <= kMostDim.
  void set_shape(int32_t first_slot, int32_t n_kv_heads, int32_t head_dim);
  int32_t first_slot() const { return first_slot_; }
  int32_t n_pages() const { return n_pages_; }

  /// Rows from `slot` on have moved or are gone: their pages are forgotten.
  void forget_from(int32_t slot);
  /// Makes room for n pages; those from the old n_pages() on must be set before they are read.
  void grow(int32_t n);
  /// Takes the bounds of one page and head, [head_dim] each.
  void set(int32_t page, int32_t head, const float* largest, const float* smallest,
           const KvKernels& kernels);

  /// The bound of each page: the largest over the query heads of sum_d max(q_d * largest_d,
  /// q_d * smallest_d). Query head h is at q + h * q_head. split: [n_heads * 2 * head_dim] scratch.
  /// scores: [n_pages].
  void score(const float* q, ptrdiff_t q_head, int32_t n_heads, const KvKernels& kernels,
             ParallelFor& parallel, std::vector<float>& split, std::span<float> scores) const;

  size_t bytes() const;
  /// For a cap on bytes: of one chunk of such rows, chunks that are allocated, and their table.
  static int64_t chunk_bytes(int32_t n_kv_heads, int32_t head_dim);
  static constexpr int32_t kChunkTokens = kTokens * kChunkPages;
  int32_t n_chunks() const { return static_cast<int32_t>(chunks_.size()); }
  int32_t table_capacity() const { return static_cast<int32_t>(chunks_.capacity()); }
  /// Gives back what is allocated for nothing.
  void trim();
  void clear() { *this = {}; }

 private:
  static size_t head_elements(int32_t head_dim);
  static size_t chunk_elements(int32_t n_kv_heads, int32_t head_dim);
  const uint16_t* chunk_of(int32_t page, int32_t head) const;

  int32_t first_slot_ = 0, n_kv_heads_ = 0, head_dim_ = 0;
  int32_t n_pages_ = 0;
  /// For each chunk and KV head a page of kernels.h whose slots are pages and whose K rows are
  /// [largest, smallest]: scores of such rows are one call of a kernel.
  std::vector<std::vector<uint16_t>> chunks_;
};

}  // namespace kvasir
