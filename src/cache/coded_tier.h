// The rows of one stream and layer that are in a compressed format: pages of codes, and what
// blocks of rows share.
//
// Slots are dense and ascend by position. A page holds kPageSlots x pages_of slots, head by head:
// the K codes of its slots, then their V codes, packed row behind row or, where kernels multiply
// codes of 8 bits, in tiles (kernels/row_tiles.h). Rows are taken in whole blocks, encoded once and
// never again: compaction moves codes, and what a block shares (a scale per channel) lives until
// its last row has left. Not thread-safe for writing; reading may happen on several threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_table.h"
#include "cache/cold_tier.h"
#include "cache/page_arena.h"
#include "cache/row_codecs.h"
#include "format/f16_page.h"
#include "format/row_codec.h"
#include "kernels/coded_page.h"
#include "kernels/row_tiles.h"

namespace kvasir {

class CodedTier final : public ColdTier {
 public:
  /// @param any_order  rows may lie in any order, so that one takes the place of one that leaves
  ///                   and no other moves; where blocks share bytes they ascend all the same
  CodedTier(const LayerGeometry& geometry, const RowCodecs& codecs, const KvKernels& kernels,
            PageArena& arena, bool any_order = false);
  ~CodedTier() override;

  const RowCodecs& codecs() const { return codecs_; }
  int32_t n_rows() const override { return n_rows_; }
  int32_t unit() const override { return codecs_.unit(); }
  std::span<const int32_t> rows_of() const override { return rows_of_; }
  bool turned() const override { return codecs_.k != nullptr && codecs_.k->turned(); }

  bool encodes_together() const override { return false; }
  bool append(const DemotedRows& demoted, ParallelFor& parallel, EncodeScratch& scratch) override;
  void read_k(int32_t head, int32_t first, int32_t n, const int32_t* positions,
              float* out) const override;
  void read_v(int32_t head, int32_t first, int32_t n, float* out) const override;
  bool attends_coded() const override { return attends_coded_; }
  bool find_page(int32_t head, int32_t first, int32_t n, CodedPage& page) const override;
  void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) override;
  void clear() override;
  bool copy_from(const ColdTier& other) override;
  size_t bytes() const override;
  void trim() override;
  void describe(LayerShape& shape) const override;
  void describe(LayerLoad& load) const override;

 private:
  struct Side {
    const RowCodec* codec;
    int32_t head_dim;
    size_t row_bytes;
    size_t shared_bytes;  // of one head
    size_t offset;        // of the side's codes in what a page holds of a head
    BlockTable blocks;
    bool in_tiles = false;
    RowTiles tiles;
  };
  static Side make_side(const RowCodec* codec, int32_t head_dim, int32_t n_heads, size_t offset);
  void lay_in_tiles(Side& side, RowLayout layout) const;
  bool reserve(int32_t n_rows);
  void encode(Side& side, const F16Tier& rows, bool is_k, int32_t first, int32_t n,
              EncodeScratch& scratch);
  void read(const Side& side, int32_t head, int32_t first, int32_t n, float* out) const;
  bool find_side(const Side& side, int32_t head, int32_t first, int32_t n, CodedSide& found) const;
  // Where a packed row lies, or the tile that holds it.
  std::byte* row(const Side& side, int32_t head, int32_t slot) const;
  std::byte* tile(const Side& side, int32_t head, int32_t slot) const;
  const std::byte* page_start(const Side& side, int32_t head, int32_t slot) const {
    return side.in_tiles ? tile(side, head, slot) : row(side, head, slot);
  }
  void decode(const Side& side, int32_t head, int32_t first, int32_t n, const std::byte* shared,
              float* out) const;
  void keep_in_place(int32_t first, std::span<const int32_t> survivors, int32_t offset);
  void move_run(const Side& side, int32_t from, int32_t to, int32_t n);
  void release_from(int32_t first_page);

  LayerGeometry geometry_;
  RowCodecs codecs_;
  PageArena* arena_;
  int32_t page_slots_ = 0;
  size_t head_bytes_ = 0;  // codes of one head in a page
  size_t page_bytes_ = 0;
  Side k_, v_;
  bool attends_coded_ = false;
  bool any_order_ = false;
  std::vector<int32_t> rows_of_;  // [n_rows_] where rows lie in any order, else empty
  std::vector<int32_t> left_;     // scratch of keep
  int32_t n_rows_ = 0;
  std::vector<std::byte*> pages_;
};

}  // namespace kvasir
