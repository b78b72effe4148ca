// One stream of one layer: its rows and, where tokens may leave, what is known of each.
//
// Two placements. By cell: a row's slot is its cell, nothing is kept about it and nothing leaves
// (policy none, sliding-window layers, several sequences in one stream). By arrival: slots ascend
// by position, and cell, position and ranker state stand beside them; older tokens may then be
// demoted to a compressed tier, which lies between the first tokens and the newest. Knows no policy
// and no attention.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cache/cold_tier.h"
#include "cache/f16_tier.h"
#include "cache/query_ring.h"
#include "cache/read_order.h"
#include "cache/restored_rows.h"
#include "select/key_index.h"

namespace kvasir {

enum class Placement { kByCell, kByArrival };

/// The tokens of one append, in order: cell and position of each.
struct TokenSpan {
  std::span<const int32_t> cells;
  std::span<const int32_t> positions;
};

class LayerCache {
 public:
  /// @param cold  takes demoted rows; null: nothing is demoted. By arrival only
  /// @param n_state  floats of ranker state per token
  LayerCache(Placement placement, const LayerGeometry& geometry, std::unique_ptr<ColdTier> cold,
             const KvKernels& kernels, PageArena& arena, int32_t n_state = 0);

  Placement placement() const { return placement_; }
  /// The tier of f16 rows: all of them, but for those that were demoted.
  const F16Tier& rows() const { return rows_; }
  /// The tier of demoted rows; null if this layer demotes nothing.
  const ColdTier* cold() const { return cold_.get(); }
  ColdTier* cold() { return cold_.get(); }
  int32_t n_cold() const { return cold_ == nullptr ? 0 : cold_->n_rows(); }
  ReadOrder read_order() const {
    const auto rows = cold_ == nullptr ? std::span<const int32_t>() : cold_->rows_of();
    return {n_slots_, n_head_, n_cold(), rows.empty() ? nullptr : rows.data()};
  }
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

  /// By arrival: drops the tokens at or past a position, as append_k does before it takes them
  /// anew.
  void drop_from(int32_t position);

  /// By arrival: keeps slots [0, first) and `survivors` (ascending, >= first), in order.
  void keep(int32_t first, std::span<const int32_t> survivors);

  /// By arrival: demotes what is older than the newest `recent` tokens, but for the first
  /// `n_sinks`, as far as whole blocks go. Rows stay f16 where memory is out.
  /// @return tokens demoted
  int32_t demote(int32_t n_sinks, int32_t recent, ParallelFor& parallel, EncodeScratch& scratch);

  /// K (V) of one slot as f16, [n_kv_heads, head_dim]; zeros where nothing was written. Demoted
  /// rows are decoded, and turned back where their format turns them.
  void read_row(int32_t slot, bool is_k, uint16_t* row) const;
  /// K of one slot and head as f32, [head_dim_k]; turned back where the format turns it.
  void read_key(int32_t slot, int32_t head, float* row) const;
  /// Decodes K (V) of one head, rows [first, first + n) of the demoted tier, to out [n, head_dim].
  /// K stays turned where the format turns it. Requires: first + n <= n_cold().
  void read_cold_k(int32_t head, int32_t first, int32_t n, float* out) const {
    cold_->read_k(head, first, n, positions_.data() + n_head_ + first, out);
  }
  void fetch_cold(int32_t head, std::span<const int32_t> slots) const { cold_->fetch(head, slots); }
  void read_cold_v(int32_t head, int32_t first, int32_t n, float* out) const {
    cold_->read_v(head, first, n, out);
  }

  /// By arrival: takes a row that was saved, [n_kv_heads, head_dim] f16: K rows in ascending order
  /// of their cells, then V rows of cells that have one. Its position counts as its cell until the
  /// next token arrives, whose cell and position tell the distance. False when memory is out, or
  /// where the order is another.
  [[nodiscard]] bool restore_row(int32_t cell, bool is_k, const uint16_t* row);

  /// By cell: cuts rows into other heads of the same width. False when memory is out.
  [[nodiscard]] bool reshape(const LayerGeometry& geometry, const KvKernels& kernels,
                             PageArena& arena);

  /// Makes this a copy of `other` of the same placement and geometry. False when memory is out.
  [[nodiscard]] bool copy_from(const LayerCache& other);

  /// Keeps rows of the demoted tier that steps restore. Requires: cold().
  void keep_restored(std::unique_ptr<RestoredRows> restored) {
    restored_rows_ = std::move(restored);
  }
  /// Those rows, which reading fills in; null where none are kept.
  RestoredRows* restored() const { return restored_rows_.get(); }

  QueryRing& ring() { return ring_; }
  /// Keeps an index of the keys, which a selection makes; rows that move are forgotten there.
  void keep_index(std::unique_ptr<KeyIndex> index) { index_ = std::move(index); }
  KeyIndex* index() const { return index_.get(); }  ///< null where none is kept

  /// Gives back what is allocated for nothing: spare pages, room in vectors. Observed queries stay.
  void trim();
  /// By arrival: tokens that metadata is allocated for; it grows with the tokens and never else.
  int32_t slot_capacity() const { return slot_capacity_; }
  /// Bytes of metadata that each of them takes.
  static int64_t slot_bytes(int32_t n_state) {
    return (3 + int64_t{n_state}) * static_cast<int64_t>(sizeof(int32_t));
  }
  /// Says what this holds, but for other_bytes.
  LayerLoad load() const;

  size_t f16_bytes() const { return rows_.bytes(); }
  size_t cold_bytes() const { return cold_ == nullptr ? 0 : cold_->bytes(); }
  size_t row_bytes() const { return f16_bytes() + cold_bytes(); }
  size_t metadata_bytes() const;

 private:
  template <typename Leaves>
  int32_t drop_where(Leaves leaves);
  void drop_replaced(const TokenSpan& tokens);
  void place_restored(const TokenSpan& tokens);
  bool append_runs(const TokenSpan& tokens, const RowsView& rows, bool is_k);
  void reserve_slots(int32_t n);

  Placement placement_;
  void keep_rows(int32_t first, std::span<const int32_t> survivors);

  F16Tier rows_;
  std::unique_ptr<ColdTier> cold_;
  std::unique_ptr<RestoredRows> restored_rows_;
  int32_t n_head_ = 0;  // f16 rows before the demoted ones
  int32_t n_slots_ = 0;
  int32_t n_fresh_ = 0;
  int32_t slot_capacity_ = 0;
  bool restored_ = false;      // positions are cells until a token arrives
  int32_t first_pending_ = 0;  // slot of the first token of the last append_k
  bool identity_ = true;
  std::vector<int32_t> cells_;
  int32_t most_cell_ = -1;  // at least the largest of cells_
  std::vector<int32_t> positions_;
  int32_t n_state_;
  std::vector<float> state_;        // [n_slots, n_state]
  std::vector<int32_t> survivors_;  // scratch of drops
  QueryRing ring_;
  std::unique_ptr<KeyIndex> index_;
};

}  // namespace kvasir
