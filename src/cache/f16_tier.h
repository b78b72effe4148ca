// The f16 rows of one stream and layer: a list of pages, slots numbered through them.
//
// Knows where rows lie, not which tokens they are. Pages may be absent (cells that were never
// written); an absent page has no rows. Not thread-safe for writing; reading may happen on several
// threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/page_arena.h"
#include "format/f16_page.h"
#include "kernels/kernels.h"

namespace kvasir {

/// f32 rows of all KV heads: row i is at data + i * stride, [n_kv_heads, head_dim].
struct RowsView {
  const float* data;
  ptrdiff_t stride;  ///< elements between rows
  int32_t n_rows;
};

class F16Tier {
 public:
  F16Tier(const LayerGeometry& geometry, const KvKernels& kernels, PageArena& arena);
  ~F16Tier();
  F16Tier(F16Tier&& other) noexcept;
  F16Tier(const F16Tier&) = delete;
  F16Tier& operator=(const F16Tier&) = delete;
  F16Tier& operator=(F16Tier&&) = delete;

  const LayerGeometry& geometry() const { return geometry_; }
  int32_t n_pages() const { return static_cast<int32_t>(pages_.size()); }
  bool has_page(int32_t page) const {
    return page < n_pages() && pages_[static_cast<size_t>(page)] != nullptr;
  }
  /// K (V) of one head of a page, in the layout of kernels.h. Requires: has_page(page).
  const uint16_t* k(int32_t page, int32_t head) const;
  const uint16_t* v(int32_t page, int32_t head) const;

  /// Makes pages for slots [first, first + n). False when memory is out; earlier pages stay.
  [[nodiscard]] bool reserve(int32_t first, int32_t n);

  /// Writes rows to consecutive slots from `first`. Requires: reserve() of that range.
  void store_k(int32_t first, const RowsView& rows);
  void store_v(int32_t first, const RowsView& rows);

  /// Reads or writes one row, [n_kv_heads, head_dim] f16. Reading an absent page gives zeros.
  void read_k(int32_t slot, uint16_t* row) const;
  void read_v(int32_t slot, uint16_t* row) const;
  /// The same of one head, [head_dim].
  void read_head(int32_t slot, int32_t head, bool is_k, uint16_t* row) const;
  void write_k(int32_t slot, const uint16_t* row);
  void write_v(int32_t slot, const uint16_t* row);

  /// Compaction: slot survivors[i] - offset moves to slot first + i, ascending and >= first; rows
  /// keep their bytes. Pages past the last survivor are given back, but for one spare.
  void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset = 0);

  /// Exchanges everything with `other`.
  void swap(F16Tier& other) noexcept;

  /// Drops every row and page.
  void clear();
  /// Gives back what is allocated for nothing: the spare page, room in the page table.
  void trim();
  int32_t n_allocated() const { return static_cast<int32_t>(n_allocated_); }
  int32_t table_capacity() const { return static_cast<int32_t>(pages_.capacity()); }

  /// Makes this a copy of `other`, which has the same geometry. False when memory is out.
  [[nodiscard]] bool copy_from(const F16Tier& other);

  /// Allocated bytes: pages (the spare too) and the page table.
  size_t bytes() const;

 private:
  template <typename PageFn>
  void for_pages(int32_t first, const RowsView& rows, PageFn f);
  std::byte* page_at(int32_t slot);
  uint16_t* k_head(std::byte* page, int32_t head) const;
  uint16_t* v_head(std::byte* page, int32_t head) const;
  void move_row(int32_t from, int32_t to);
  void release_from(int32_t first_page);

  LayerGeometry geometry_;
  const KvKernels* kernels_;
  PageArena* arena_;
  std::vector<std::byte*> pages_;
  std::byte* spare_ = nullptr;
  size_t n_allocated_ = 0;
};

}  // namespace kvasir
