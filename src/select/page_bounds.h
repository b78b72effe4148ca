// Bounds of the keys of consecutive tokens, page by page: what Quest (Tang et al., arXiv
// 2406.10774, section 3.2) keeps of a layer beside its rows.
//
// For 16 tokens, each KV head and channel: the largest and the smallest value of their keys, as
// attention reads them. sum_d max(q_d * largest_d, q_d * smallest_d) is then at least q.k for each
// of the 16. Bounds are f16, rounded outwards: 1/16 of the bytes of f16 rows.
#pragma once

#include "select/key_index.h"

namespace kvasir {

class PageBounds final : public KeyIndex {
 public:
  static constexpr int32_t kTokens = 16;  ///< of a page

  PageBounds() : KeyIndex(kTokens) {}

  void set(int32_t item, int32_t n, int32_t head, const float* keys,
           const KvKernels& kernels) override;
  /// Takes the bounds of one page and head, [head_dim] each.
  void set_bounds(int32_t page, int32_t head, const float* largest, const float* smallest,
                  const KvKernels& kernels);

  /// The bound of each page: the largest over the query heads of sum_d max(q_d * largest_d,
  /// q_d * smallest_d), not scaled.
  void score(const KeyQueries& queries, const KvKernels& kernels, ParallelFor& parallel,
             IndexScratch& scratch, std::span<float> scores) const override;
  int64_t most_scratch(int64_t n_items, int64_t n_heads, int64_t head_dim) const override;
  size_t bytes() const override { return sizeof(*this) + stored_bytes(); }
  int64_t fixed_bytes(int32_t /*n_kv_heads*/, int32_t /*head_dim*/) const override {
    return sizeof(*this);
  }

 protected:
  /// A page of kernels.h whose slots are pages and whose K rows are [largest, smallest]: scores of
  /// such rows are one call of a kernel.
  size_t head_bytes(int32_t head_dim) const override;

 private:
  const uint16_t* rows_at(int32_t page, int32_t head) const {
    return reinterpret_cast<const uint16_t*>(at(page, head));
  }
  void score_chunk(int32_t chunk, int32_t n_heads, const KvKernels& kernels, const float* split,
                   std::span<float> scores) const;
};

}  // namespace kvasir
