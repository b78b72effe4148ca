// What one stream reads of one layer where it does not read all: which tokens, and where they lie.
//
// Tokens are chosen by position, so that layers which hold other tokens can follow. A plan cuts
// them into pages of kernels: runs of a tier whose groups of kLaneSlots rows are read for the most
// part are read in place, rows that are not chosen hidden; what is scattered is gathered. K of f16
// rows is interleaved by groups, so that one row alone touches as many cache lines as its whole
// group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/layer_cache.h"
#include "cache/page_rows.h"

namespace kvasir {

/// The tokens of one stream that a step reads.
struct ReadSet {
  int64_t epoch = -1;              ///< of the step
  int64_t version = 0;             ///< another for each choice
  int32_t first = 0, last = 0;     ///< positions [first, last) could be chosen; others are read
  std::vector<int32_t> positions;  ///< those that were, ascending
};

class ReadPlan {
 public:
  /// Says where the tokens of `set` lie in `rows`. Does nothing if the last call was of the same
  /// choice and of rows that lie alike.
  /// @param coded  demoted rows are attended as codes, so in place too
  void build(const LayerCache& rows, const ReadSet& set, bool coded);

  int32_t n_pages() const { return static_cast<int32_t>(pages_.size()); }
  /// Rows of a page; places [page * kPageSlots, + n).
  PageRef page(int32_t page) const {
    const Page& p = pages_[static_cast<size_t>(page)];
    const size_t first = static_cast<size_t>(page) * kPageSlots;
    if (p.first >= 0) return {p.first, p.n, p.cold, nullptr};
    return {-1, p.n, p.cold, rows_.data() + first,
            p.cold ? static_cast<int32_t>(first - first_listed_) : -1};
  }
  /// The demoted rows that are listed in pages, ascending.
  std::span<const int32_t> listed() const {
    return std::span(rows_).subspan(first_listed_, n_listed_);
  }
  /// The cell at each place, [n_pages() * kPageSlots]; kNoCell where none is read.
  std::span<const int32_t> cells() const { return cells_; }
  int32_t n_read() const { return n_read_; }  ///< rows
  /// The most pages of a plan of n_slots tokens, and the most that bytes() may be.
  static int64_t most_pages(int64_t n_slots);
  static int64_t most_bytes(int64_t n_slots);
  size_t bytes() const {
    return pages_.capacity() * sizeof(Page) +
           (rows_.capacity() + cells_.capacity() + slots_.capacity()) * sizeof(int32_t);
  }

 private:
  struct Page {
    int32_t first;  // in its tier; -1: gathered
    int32_t n;
    bool cold;
  };
  bool find_slots(const LayerCache& rows, const ReadSet& set);
  void add_tier(const LayerCache& rows, size_t begin, size_t end, bool cold, bool in_place);
  void add_group(const LayerCache& rows, size_t begin, size_t end, bool cold);
  void gather(const LayerCache& rows, size_t begin, size_t end, bool cold);
  void open_page(int32_t first, bool cold);

  int64_t version_ = -1;
  ReadOrder order_;
  bool coded_ = false;
  int32_t n_read_ = 0;
  size_t first_listed_ = 0, n_listed_ = 0;  // demoted rows in rows_
  int32_t gathered_ = -1;                   // the page that is being filled, or -1
  std::vector<Page> pages_;
  std::vector<int32_t> rows_;   // [n_pages * kPageSlots] row in its tier, of gathered pages
  std::vector<int32_t> cells_;  // [n_pages * kPageSlots]
  std::vector<int32_t> slots_;  // that are read, ascending
};

}  // namespace kvasir
