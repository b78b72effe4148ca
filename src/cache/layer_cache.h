// One stream of one layer: its rows and, where tokens may leave, what is known of each.
//
// Two placements. By cell: a row's slot is its cell, nothing is kept about it and nothing leaves
// (policy none, sliding-window layers, several sequences in one stream). By arrival: slots ascend
// by position, and cell, position and ranker state stand beside them. Knows no policy and no
// attention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/f16_tier.h"
#include "cache/query_ring.h"

namespace kvasir {

enum class Placement { kByCell, kByArrival };

/// The tokens of one append, in order: cell and position of each.
struct TokenSpan {
  std::span<const int32_t> cells;
  std::span<const int32_t> positions;
};

class LayerCache {
 public:
  /// @param n_state  floats of ranker state per token
  LayerCache(Placement placement, const LayerGeometry& geometry, const KvKernels& kernels,
             PageArena& arena, int32_t n_state = 0);

  Placement placement() const { return placement_; }
  const F16Tier& rows() const { return rows_; }
  F16Tier& rows() { return rows_; }

  /// Takes K rows of tokens that arrive, then append_v takes their V rows. By arrival: tokens at or
  /// past a position that arrives were removed by the server and leave first; so does a token whose
  /// cell is written again. False when memory is out.
  /// Requires: positions ascend; append_v follows append_k with the same tokens.
  [[nodiscard]] bool append_k(const TokenSpan& tokens, const RowsView& rows);
  [[nodiscard]] bool append_v(const TokenSpan& tokens, const RowsView& rows);

  /// By cell: makes room for the row of a cell. False when memory is out.
  [[nodiscard]] bool reserve_cell(int32_t cell);

  /// By arrival: live tokens. By cell: one past the highest cell written.
  int32_t n_slots() const { return n_slots_; }
  /// True if slot i is cell i for all slots.
  bool is_identity() const { return identity_; }
  std::span<const int32_t> cells() const { return cells_; }
  std::span<const int32_t> positions() const { return positions_; }
  std::span<float> state() { return state_; }  ///< [n_slots, n_state]
  int32_t n_state() const { return n_state_; }

  /// Tokens that arrived since the last call of take_fresh().
  int32_t take_fresh();

  /// By arrival: drops every slot whose cell the newest query does not see.
  /// @param mask  f16 mask values of the newest query by cell, [n_cells]
  /// @return tokens dropped
  int32_t drop_hidden(const uint16_t* mask, int32_t n_cells);

  /// By arrival: keeps slots [0, first) and `survivors` (ascending, >= first), in order.
  void keep(int32_t first, std::span<const int32_t> survivors);

  /// Forgets every token.
  void clear();

  /// By cell: cuts rows into other heads of the same width. False when memory is out.
  [[nodiscard]] bool reshape(const LayerGeometry& geometry, const KvKernels& kernels,
                             PageArena& arena);

  /// Makes this a copy of `other` of the same placement and geometry. False when memory is out.
  [[nodiscard]] bool copy_from(const LayerCache& other);

  QueryRing& ring() { return ring_; }

  size_t row_bytes() const { return rows_.bytes(); }
  size_t metadata_bytes() const;

 private:
  template <typename Leaves>
  int32_t drop_where(Leaves leaves);
  void drop_replaced(const TokenSpan& tokens);
  bool append_runs(const TokenSpan& tokens, const RowsView& rows, bool is_k);

  Placement placement_;
  F16Tier rows_;
  int32_t n_slots_ = 0;
  int32_t n_fresh_ = 0;
  int32_t first_pending_ = 0;  // slot of the first token of the last append_k
  bool identity_ = true;
  std::vector<int32_t> cells_;
  std::vector<int32_t> positions_;
  int32_t n_state_;
  std::vector<float> state_;        // [n_slots, n_state]
  std::vector<int32_t> survivors_;  // scratch of drops
  QueryRing ring_;
};

}  // namespace kvasir
