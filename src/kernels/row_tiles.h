// Tiles: rows of 8-bit codes laid down as dot products of bytes read them.
//
// A tile is as large as the kPageSlots packed rows that it holds. Its codes come first, then the
// scales of its slots, group by group:
//   keys    byte (slot, channel) at channel / 4 * 4 * kPageSlots + slot * 4 + channel % 4, 128
//           higher than the code means (one operand of the dot product is unsigned)
//   values  byte (slot, channel) at slot / 4 * 4 * head_dim + channel * 4 + slot % 4
//   scales  binary16 (slot, group) at kPageSlots * head_dim + (group * kPageSlots + slot) * 2
// So kernels copy and transpose nothing. What is paid for it: a row that moves alone touches as
// many places as it has channels, so rows move in runs. Knows no cache. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/coded_page.h"
#include "kernels/packed_rows.h"

namespace kvasir {

/// True if rows of that packing can lie in tiles: signed codes of 8 bits without zeros, and a
/// head_dim of whole vectors of bytes.
bool has_tiles(const Packing& packing, int32_t head_dim);

/// Rows of one KV head in tiles. Requires of all: has_tiles(packing, head_dim).
struct RowTiles {
  Packing packing;
  int32_t head_dim = 0;
  RowLayout layout = RowLayout::kKeyTile;  ///< or kValueTile

  size_t bytes() const;  ///< of one tile

  /// Puts one packed row (packing.row_bytes) at a slot, 0 .. kPageSlots - 1; or copies it out.
  void put(const std::byte* row, std::byte* tile, int32_t slot) const;
  void get(const std::byte* tile, int32_t slot, std::byte* row) const;
  /// The same of what point() gave; slots count from there.
  void get(const CodedSide& side, int32_t slot, std::byte* row) const;

  /// Copies n slots of `from` onto those of `to`, byte for byte. The tiles may be one where
  /// to_slot <= from_slot. Requires: both ranges lie inside their tiles.
  void move(const std::byte* from, int32_t from_slot, std::byte* to, int32_t to_slot,
            int32_t n) const;

  /// What kernels read of a tile from `slot` on, a multiple of 16: codes, scales and layout.
  void point(const std::byte* tile, int32_t slot, CodedSide& side) const;

 private:
  size_t code_at(int32_t slot, int32_t channel) const;
  static size_t scale_at(int32_t slot, int32_t group);  // behind the codes
  size_t code_bytes() const;
  void move_keys(const std::byte* from, int32_t from_slot, std::byte* to, int32_t to_slot,
                 int32_t n) const;
  void move_values(const std::byte* from, int32_t from_slot, std::byte* to, int32_t to_slot,
                   int32_t n) const;
};

}  // namespace kvasir
