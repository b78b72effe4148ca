// The references of one residual tier: tokens that stand for themselves, by index.
//
// A reference is owned while its own token lives, and used while other tokens are stored as
// differences from it; its bytes go back to the pool when neither is so, and never before. An
// owned one may be chosen by tokens to come. Knows no codec. Not thread-safe for writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/page_arena.h"

namespace kvasir {

class ReferencePool {
 public:
  ReferencePool(size_t row_bytes, PageArena& arena);
  ~ReferencePool();
  ReferencePool(const ReferencePool&) = delete;
  ReferencePool& operator=(const ReferencePool&) = delete;

  /// Makes room for n more. False when memory is out.
  [[nodiscard]] bool reserve(int32_t n);
  /// A new one, owned and not used. Requires: reserve().
  int32_t add();
  std::byte* at(int32_t index) const;

  void use(int32_t index) { ++uses_[static_cast<size_t>(index)].count; }
  void release(int32_t index);  ///< a token that used it has left
  void disown(int32_t index);   ///< its own token has left
  bool owned(int32_t index) const { return uses_[static_cast<size_t>(index)].owned; }

  /// Indices are below this.
  int32_t size() const { return static_cast<int32_t>(uses_.size()); }
  int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
  void clear();
  /// Gives back what no index needs. Where some are free the others move down and keep their order:
  /// the new index of each old one, -1 if it was free; empty where none has moved.
  std::vector<int32_t> trim();
  [[nodiscard]] bool copy_from(const ReferencePool& other);
  size_t bytes() const;
  /// For a cap on bytes: what a page costs, and what is allocated.
  int64_t page_footprint() const { return int64_t(PageArena::footprint(page_bytes())); }
  int32_t page_rows() const { return page_rows_; }
  static constexpr int64_t index_bytes() { return sizeof(Use) + sizeof(int32_t); }
  int32_t n_pages() const { return static_cast<int32_t>(pages_.size()); }
  int32_t table_capacity() const { return static_cast<int32_t>(pages_.capacity()); }
  int32_t index_capacity() const { return static_cast<int32_t>(uses_.capacity()); }

 private:
  struct Use {
    uint32_t count : 31;
    uint32_t owned : 1;
  };
  void free_if_idle(int32_t index);
  void release_from(size_t first_page);
  size_t page_bytes() const { return row_bytes_ * static_cast<size_t>(page_rows_); }

  size_t row_bytes_;
  int32_t page_rows_;
  PageArena* arena_;
  std::vector<std::byte*> pages_;
  std::vector<Use> uses_;
  std::vector<int32_t> free_;  // has room for all of uses_
};

}  // namespace kvasir
