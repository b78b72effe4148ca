// What blocks of encoded rows share (scales or means of channels), found by slot.
//
// Rows are dense, may leave, and take their block's bytes with them: those live until the last row
// of the block has left. Not thread-safe for writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/memory_cap.h"

namespace kvasir {

/// What the blocks of one side (K or V) share, for rows that are dense and may leave.
class BlockTable {
 public:
  /// @param shared_bytes  of one block, all heads; 0: blocks share nothing and are not kept
  BlockTable(int32_t block_rows, size_t shared_bytes)
      : block_rows_(block_rows), shared_bytes_(shared_bytes) {}

  /// Adds a block whose rows follow at slot `first`; where its shared bytes go, or null where
  /// blocks share nothing.
  std::byte* add(int32_t first);
  /// Shared bytes of the block of a slot, or null; `end` becomes the first slot of the next.
  const std::byte* find(int32_t slot, int32_t n_rows, int32_t& end) const;
  /// Follows CodedTier::keep.
  void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset = 0);
  void clear();
  int32_t n_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  size_t bytes() const;
  /// Gives back what no live block needs.
  void trim();
  BlockLoad load() const;
  BlockShape shape() const {
    const auto known = static_cast<int64_t>(sizeof(Block) + sizeof(int32_t));
    return {block_rows_, shared_bytes_ == 0 ? 0 : static_cast<int64_t>(shared_bytes_) + known};
  }

 private:
  struct Block {
    int32_t first;  // slot of its first live row
    int32_t index;  // of its shared bytes in the pool
  };
  void reserve(size_t n_slots);
  int32_t block_rows_;
  size_t shared_bytes_;
  std::vector<Block> blocks_;  // ascending by first
  std::vector<std::byte> pool_;
  std::vector<int32_t> free_;  // indices into the pool
};

}  // namespace kvasir
