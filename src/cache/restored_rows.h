// Rows of one stream and layer that were restored lately, in f16: what a selection reads again.
//
// Neighbouring steps choose nearly the same tokens, and restoring a row (residual_tier.h,
// latent_tier.h) costs more than copying it. So what a step reads of the demoted rows is kept, and
// what the next one reads again is found; of those that it does not the ones that were read last
// longest ago make room. What is found has the bits that restoring gives.
// plan() and keep() belong to one thread. Between them threads may ask for and fill in rows at
// once, each (row, head) on one thread: nothing is locked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/options.h"
#include "cache/page_arena.h"
#include "format/f16_page.h"

namespace kvasir {

class RestoredRows {
 public:
  /// @param most  rows that are kept at most; kUsualRestored: n_wanted()
  RestoredRows(const LayerGeometry& geometry, int32_t most, PageArena& arena);
  ~RestoredRows();
  RestoredRows(const RestoredRows&) = delete;
  RestoredRows& operator=(const RestoredRows&) = delete;

  /// A step reads `rows` of the demoted tier, ascending, which has n_rows. Finds those that are
  /// kept and makes room for the others, as far as there is any. Linear in rows and in what is
  /// kept.
  void plan(std::span<const int32_t> rows, int32_t n_rows);

  /// Where row i of the last plan is kept, or will be; -1: nowhere.
  int32_t entry(int32_t i) const { return entries_[static_cast<size_t>(i)]; }
  /// True if K and V of one head lie there.
  bool holds(int32_t entry, int32_t head) const {
    return entry >= 0 && filled_[flag_at(entry, head)] != 0;
  }
  /// K and V of one head, [head_dim_k] and [head_dim_v] binary16, to read or to fill in.
  uint16_t* k(int32_t entry, int32_t head) const;
  uint16_t* v(int32_t entry, int32_t head) const { return k(entry, head) + geometry_.head_dim_k; }
  /// A hint: those are read or filled in next.
  void fetch(int32_t entry, int32_t head) const;
  /// K and V of one head were filled in.
  void fill(int32_t entry, int32_t head) { filled_[flag_at(entry, head)] = 1; }

  /// The demoted tier moves its rows (ColdTier::keep).
  void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset);
  /// Forgets all rows, and gives back what they took.
  void clear();

  /// Rows of plans so far, and how many of them were kept from before.
  int64_t n_read() const { return n_read_; }
  int64_t n_found() const { return n_found_; }
  /// Allocated bytes.
  size_t bytes() const;
  /// The most that one allocates which keeps n_kept rows where steps read up to n_read.
  static size_t most_bytes(const LayerGeometry& geometry, int32_t n_kept, int32_t n_read);
  /// Rows that are kept by default where a step reads n of n_rows.
  static int32_t n_wanted(int32_t n, int32_t n_rows);

 private:
  struct Held {
    int32_t row;    // of the demoted tier
    int32_t entry;  // where it is kept
    uint32_t step;  // that read it last
  };
  size_t flag_at(int32_t entry, int32_t head) const {
    return static_cast<size_t>(entry) * static_cast<size_t>(geometry_.n_kv_heads) +
           static_cast<size_t>(head);
  }
  template <typename Leaves>
  void drop(Leaves leaves);
  void grow(int32_t n);
  int32_t find(std::span<const int32_t> rows);
  void make_room(int32_t n);
  void take_in(std::span<const int32_t> rows);

  LayerGeometry geometry_;
  int32_t most_;
  PageArena* arena_;
  size_t row_bytes_;
  int32_t page_rows_;
  size_t page_bytes_;
  uint32_t step_ = 0;
  int64_t n_read_ = 0, n_found_ = 0;
  std::vector<std::byte*> pages_;
  std::vector<uint8_t> filled_;   // [entries, n_kv_heads]
  std::vector<int32_t> free_;     // entries that no row has
  std::vector<Held> held_;        // ascending by row
  std::vector<Held> merged_;      // scratch of take_in
  std::vector<int32_t> entries_;  // [rows of the last plan]
};

}  // namespace kvasir
