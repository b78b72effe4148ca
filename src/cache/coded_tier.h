// The rows of one stream and layer that are in a compressed format: pages of codes, and what
// blocks of rows share.
//
// Slots are dense and ascend by position. A page holds kPageSlots x pages_of slots, head by head:
// the K codes of its slots, then their V codes. Rows are taken in whole blocks, encoded once and
// never again: compaction moves codes, and what a block shares (a scale per channel) lives until
// its last row has left. Not thread-safe for writing; reading may happen on several threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/f16_tier.h"
#include "cache/memory_cap.h"
#include "cache/page_arena.h"
#include "cache/row_codecs.h"
#include "format/f16_page.h"
#include "format/row_codec.h"
#include "kernels/coded_page.h"

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

/// Scratch of CodedTier::append; one serves all layers.
struct EncodeScratch {
  std::vector<float> rows;       // a block of all heads
  std::vector<uint16_t> row;     // a row of all heads
  std::vector<std::byte> codes;  // a block of one head

  size_t bytes() const {
    return rows.capacity() * sizeof(float) + row.capacity() * sizeof(uint16_t) + codes.capacity();
  }
};

class CodedTier {
 public:
  CodedTier(const LayerGeometry& geometry, const RowCodecs& codecs, PageArena& arena);
  ~CodedTier();
  CodedTier(const CodedTier&) = delete;
  CodedTier& operator=(const CodedTier&) = delete;

  const RowCodecs& codecs() const { return codecs_; }
  int32_t n_rows() const { return n_rows_; }

  /// Takes rows [first, first + n) of `rows` behind its own. False when memory is out; nothing is
  /// changed then. Requires: n is a multiple of codecs().unit().
  [[nodiscard]] bool append(const F16Tier& rows, int32_t first, int32_t n, EncodeScratch& scratch);

  /// Decodes K (V) of one head, slots [first, first + n), to out [n, head_dim]. Turned where the
  /// codec turns.
  void read_k(int32_t head, int32_t first, int32_t n, float* out) const;
  void read_v(int32_t head, int32_t first, int32_t n, float* out) const;

  /// True if kernels can read the codes of K and V themselves (attends_coded).
  bool attends_coded() const { return attends_coded_; }
  /// Where the codes of one head's slots [first, first + n) lie, which are in one page of kernels.
  /// False if they are of more than kMostRuns blocks. Requires: attends_coded().
  [[nodiscard]] bool find_page(int32_t head, int32_t first, int32_t n, CodedPage& page) const;

  /// Compaction: slot survivors[i] - offset moves to slot first + i, ascending and >= first.
  void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset = 0);
  void clear();
  /// Makes this a copy of `other` of the same geometry and codecs. False when memory is out.
  [[nodiscard]] bool copy_from(const CodedTier& other);

  /// Allocated bytes: pages, page table, what blocks share.
  size_t bytes() const;
  /// Gives back what is allocated for nothing.
  void trim();
  /// Says what the tier costs, and what it holds.
  void describe(LayerShape& shape) const;
  void describe(LayerLoad& load) const;

 private:
  struct Side {
    const RowCodec* codec;
    int32_t head_dim;
    size_t row_bytes;
    size_t shared_bytes;  // of one head
    size_t offset;        // of the side's codes in what a page holds of a head
    BlockTable blocks;
  };
  static Side make_side(const RowCodec* codec, int32_t head_dim, int32_t n_heads, size_t offset);
  bool reserve(int32_t n_rows);
  void encode(Side& side, const F16Tier& rows, bool is_k, int32_t first, int32_t n,
              EncodeScratch& scratch);
  void read(const Side& side, int32_t head, int32_t first, int32_t n, float* out) const;
  bool find_side(const Side& side, int32_t head, int32_t first, int32_t n, CodedSide& found) const;
  std::byte* codes(const Side& side, int32_t head, int32_t slot) const;
  void release_from(int32_t first_page);

  LayerGeometry geometry_;
  RowCodecs codecs_;
  PageArena* arena_;
  int32_t page_slots_ = 0;
  size_t head_bytes_ = 0;  // codes of one head in a page
  size_t page_bytes_ = 0;
  Side k_, v_;
  bool attends_coded_ = false;
  int32_t n_rows_ = 0;
  std::vector<std::byte*> pages_;
};

}  // namespace kvasir
