// Which slots each query sees, page by page.
//
// The mask that the graph passes is the truth about visibility, in cells. Here it is put into slot
// order and each (query, page) is classed once, so that attention skips hidden pages and adds
// nothing where all is visible. Where slots and cells agree the mask is read in place, and one
// classing serves all layers of a step.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace kvasir {

inline constexpr uint16_t kF16MinusInf = 0xFC00;
/// Stands for a cell where there is none: no query sees it.
inline constexpr int32_t kNoCell = std::numeric_limits<int32_t>::max();

/// The mask of one stream as the graph passes it: value of (query, cell) at
/// data[query * stride + cell], f16. data may be null: everything is visible.
struct CellMask {
  const uint16_t* data = nullptr;
  ptrdiff_t stride = 0;
  int32_t n_queries = 0;
  int32_t n_cells = 0;
};

class MaskView {
 public:
  enum Visibility : uint8_t { kHidden, kPartly, kFully };

  /// Classes a mask whose slots are its cells: slot i is cell i, n_slots = mask.n_cells. Does
  /// nothing if (mask.data, epoch) are those of the last call.
  void set_identity(const CellMask& mask, int64_t epoch);

  /// Puts a mask into slot order: slot i is cells[i]. A cell at or past mask.n_cells is hidden,
  /// and kNoCell is where there is no mask.
  /// Does nothing if (mask.data, epoch, cells) are those of the last call: layers that keep the
  /// same tokens share the work.
  void set_gathered(const CellMask& mask, std::span<const int32_t> cells, int64_t epoch);

  int32_t n_slots() const { return n_slots_; }
  int32_t n_pages() const { return n_pages_; }
  Visibility visibility(int32_t query, int32_t page) const {
    return static_cast<Visibility>(
        classes_[static_cast<size_t>(query) * static_cast<size_t>(n_pages_) +
                 static_cast<size_t>(page)]);
  }
  /// Mask values of a page's slots for one query; null if all are visible and nothing is added.
  const uint16_t* page_mask(int32_t query, int32_t page) const {
    return visibility(query, page) == kFully
               ? nullptr
               : data_ + query * stride_ + ptrdiff_t{page} * kPageSlots;
  }
  size_t bytes() const {
    return classes_.capacity() + gathered_.capacity() * sizeof(uint16_t) +
           cells_.capacity() * sizeof(int32_t);
  }

 private:
  void classify(int32_t n_queries);

  const uint16_t* data_ = nullptr;
  ptrdiff_t stride_ = 0;
  int32_t n_slots_ = 0;
  int32_t n_pages_ = 0;
  const uint16_t* last_data_ = nullptr;
  int64_t last_epoch_ = -1;
  std::vector<uint8_t> classes_;    // [n_queries, n_pages]
  std::vector<uint16_t> gathered_;  // [n_queries, n_slots]
  std::vector<int32_t> cells_;      // [n_slots] of set_gathered; the last call's, or empty
};

}  // namespace kvasir
