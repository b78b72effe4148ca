// One page of one KV head as kernels read it: in place where rows are f16, decoded into scratch
// where they are compressed. A decoded page lives in a worker's cache, never in memory as a copy
// of the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/layer_cache.h"
#include "cache/read_order.h"

namespace kvasir {

/// Room for one decoded page; grows to what the largest layer needs.
class PageScratch {
 public:
  void reserve(int32_t head_dim_k, int32_t head_dim_v);
  uint16_t* k() { return aligned(0); }
  uint16_t* v() { return aligned(k_size_); }
  float* rows() { return rows_.data(); }
  /// Keys row by row, [kPageSlots, head_dim_k], made room for here.
  uint16_t* keys(int32_t head_dim_k);
  size_t bytes() const {
    return (tiles_.capacity() + keys_.capacity()) * sizeof(uint16_t) +
           rows_.capacity() * sizeof(float);
  }

 private:
  uint16_t* aligned(size_t offset);

  size_t k_size_ = 0;            // elements, a multiple of a cache line
  std::vector<uint16_t> tiles_;  // K, then V, in the layout of kernels.h
  std::vector<float> rows_;      // [kPageSlots, head_dim]
  std::vector<uint16_t> keys_;   // the same of K, where restored rows are kept
};

/// K and V in the layout of kernels.h; null where nothing was ever written (rows by cell).
struct PageRows {
  const uint16_t* k = nullptr;
  const uint16_t* v = nullptr;
};

/// Rows of one tier that make up a page: consecutive ones, or those that are listed.
struct PageRef {
  int32_t first = 0;              ///< row in its tier, a multiple of kLaneSlots; -1: listed
  int32_t n = 0;                  ///< 1..kPageSlots; consecutive ones lie in one page of the tier
  bool cold = false;              ///< of the compressed tier
  const int32_t* rows = nullptr;  ///< [n] ascending where they are listed, else null
  int32_t listed = -1;            ///< of demoted ones that are: place in ReadPlan::listed()
};

/// Those rows of one KV head. Valid until the scratch is used again. Without `with_v` V may be
/// anything.
PageRows read_rows(const LayerCache& rows, const PageRef& page, int32_t head,
                   const KvKernels& kernels, PageScratch& scratch, bool with_v = true);

/// The rows of `page` (in the read order of `rows`) of one KV head. Valid until the scratch is used
/// again. Without `with_v` V may be anything.
PageRows read_page(const LayerCache& rows, const ReadOrder& order, int32_t page, int32_t head,
                   const KvKernels& kernels, PageScratch& scratch, bool with_v = true);

}  // namespace kvasir
