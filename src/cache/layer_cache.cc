#include "cache/layer_cache.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "cache/mask_view.h"
#include "cache/scratch.h"
#include "format/row_codec.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

LayerCache::LayerCache(Placement placement, const LayerGeometry& geometry,
                       std::unique_ptr<ColdTier> cold, const KvKernels& kernels, PageArena& arena,
                       int32_t n_state)
    : placement_(placement),
      rows_(geometry, kernels, arena),
      cold_(std::move(cold)),
      n_state_(n_state) {
  assert(placement == Placement::kByArrival || cold_ == nullptr);
}

// By cell: consecutive cells are written in one go.
bool LayerCache::append_runs(const TokenSpan& tokens, const RowsView& rows, bool is_k) {
  for (size_t begin = 0; begin < tokens.cells.size();) {
    size_t end = begin + 1;
    while (end < tokens.cells.size() && tokens.cells[end] == tokens.cells[end - 1] + 1) ++end;
    const auto n = static_cast<int32_t>(end - begin);
    const int32_t first = tokens.cells[begin];
    if (!rows_.reserve(first, n)) return false;
    const RowsView part{rows.data + static_cast<ptrdiff_t>(begin) * rows.stride, rows.stride, n};
    if (is_k) {
      rows_.store_k(first, part);
    } else {
      rows_.store_v(first, part);
    }
    n_slots_ = std::max(n_slots_, first + n);
    begin = end;
  }
  return true;
}

void LayerCache::reserve_slots(int32_t n) {
  if (n <= slot_capacity_) return;
  slot_capacity_ = static_cast<int32_t>(grown(slot_capacity_, n));
  const auto capacity = static_cast<size_t>(slot_capacity_);
  cells_.reserve(capacity);
  positions_.reserve(capacity);
  survivors_.reserve(capacity);
  state_.reserve(capacity * static_cast<size_t>(n_state_));
}

void LayerCache::trim() {
  rows_.trim();
  if (cold_ != nullptr) cold_->trim();
  if (restored_rows_ != nullptr) restored_rows_->clear();
  if (placement_ == Placement::kByCell) return;
  if (index_ != nullptr) index_->trim();
  slot_capacity_ = n_slots_;
  cells_.shrink_to_fit();
  positions_.shrink_to_fit();
  state_.shrink_to_fit();
  give_back(survivors_);
  survivors_.reserve(static_cast<size_t>(n_slots_));
}

LayerLoad LayerCache::load() const {
  LayerLoad load;
  load.exists = true;
  load.n_slots = n_slots_;
  load.n_head = n_head_;
  load.f16_pages = rows_.n_allocated();
  load.f16_table = rows_.table_capacity();
  load.slot_capacity = slot_capacity_;
  load.n_queries = ring_.n_allocated();
  if (index_ != nullptr) {
    load.chunks = index_->n_chunks();
    load.chunk_table = index_->table_capacity();
  }
  if (cold_ != nullptr) cold_->describe(load);
  load.n_f16 = n_slots_ - load.n_cold;
  return load;
}

bool LayerCache::append_k(const TokenSpan& tokens, const RowsView& rows) {
  assert(tokens.cells.size() == tokens.positions.size());
  assert(static_cast<int32_t>(tokens.cells.size()) == rows.n_rows);
  if (rows.n_rows == 0) return true;
  if (placement_ == Placement::kByCell) return append_runs(tokens, rows, true);

  place_restored(tokens);
  drop_replaced(tokens);
  first_pending_ = n_slots_;
  reserve_slots(n_slots_ + rows.n_rows);
  const int32_t first_row = n_slots_ - n_cold();
  if (!rows_.reserve(first_row, rows.n_rows)) return false;
  rows_.store_k(first_row, rows);
  for (size_t i = 0; i < tokens.cells.size(); ++i) {
    identity_ = identity_ && tokens.cells[i] == n_slots_ + static_cast<int32_t>(i);
  }
  cells_.insert(cells_.end(), tokens.cells.begin(), tokens.cells.end());
  most_cell_ = std::max(most_cell_, *std::max_element(tokens.cells.begin(), tokens.cells.end()));
  positions_.insert(positions_.end(), tokens.positions.begin(), tokens.positions.end());
  n_slots_ += rows.n_rows;
  n_fresh_ += rows.n_rows;
  state_.resize(static_cast<size_t>(n_slots_) * static_cast<size_t>(n_state_), 0.0F);
  return true;
}

bool LayerCache::append_v(const TokenSpan& tokens, const RowsView& rows) {
  if (rows.n_rows == 0) return true;
  if (placement_ == Placement::kByCell) return append_runs(tokens, rows, false);
  assert(first_pending_ + rows.n_rows == n_slots_);
  rows_.store_v(first_pending_ - n_cold(), rows);
  return true;
}

bool LayerCache::reserve_cell(int32_t cell) {
  assert(placement_ == Placement::kByCell);
  n_slots_ = std::max(n_slots_, cell + 1);
  return rows_.reserve(cell, 1);
}

// The slots that stay, where `leaves` says who does not; the first hole and the survivors behind it
// go to keep(). Returns how many left. What a prompt had looked at is then no longer what is there.
template <typename Leaves>
int32_t LayerCache::drop_where(Leaves leaves) {
  size_t hole = 0;
  const auto n = static_cast<size_t>(n_slots_);
  while (hole < n && !leaves(hole)) ++hole;
  if (hole == n) return 0;
  ring_.clear();
  survivors_.clear();
  for (size_t slot = hole; slot < n; ++slot) {
    if (!leaves(slot)) survivors_.push_back(static_cast<int32_t>(slot));
  }
  const auto dropped = static_cast<int32_t>(n - hole - survivors_.size());
  keep(static_cast<int32_t>(hole), survivors_);
  return dropped;
}

// Tokens at or past the first position that arrives, and those whose cell is written again. Where
// a text goes on there are none, which takes no search: cells and positions are higher than all.
void LayerCache::drop_replaced(const TokenSpan& tokens) {
  const auto [low, high] = std::minmax_element(tokens.cells.begin(), tokens.cells.end());
  if (positions_.empty() || (positions_.back() < tokens.positions.front() && *low > most_cell_)) {
    return;
  }
  drop_where([&, low = *low, high = *high](size_t slot) {
    if (positions_[slot] >= tokens.positions.front()) return true;
    const int32_t cell = cells_[slot];
    return cell >= low && cell <= high &&
           std::find(tokens.cells.begin(), tokens.cells.end(), cell) != tokens.cells.end();
  });
}

void LayerCache::drop_from(int32_t position) {
  assert(placement_ == Placement::kByArrival);
  drop_where([&](size_t slot) { return positions_[slot] >= position; });
}

int32_t LayerCache::drop_hidden(const uint16_t* mask, int32_t n_cells) {
  assert(placement_ == Placement::kByArrival);
  return drop_where(
      [&](size_t slot) { return cells_[slot] >= n_cells || mask[cells_[slot]] == kF16MinusInf; });
}

int32_t LayerCache::take_fresh() {
  const int32_t n = std::min(n_fresh_, n_slots_);
  n_fresh_ = 0;
  return n;
}

// Each tier keeps its part of the survivors. Those of the first rows and of the newest lie in one
// tier but not side by side; first rows leave only where the server removes them.
void LayerCache::keep_rows(int32_t first, std::span<const int32_t> survivors) {
  const int32_t cold_end = n_head_ + n_cold();
  if (n_cold() == 0) {
    rows_.keep(first, survivors);
    return;
  }
  const auto split = [&](int32_t slot) {
    return std::lower_bound(survivors.begin(), survivors.end(), slot);
  };
  const auto head = std::span(survivors.begin(), split(n_head_));
  const auto cold = std::span(head.end(), split(cold_end));
  const auto newest = std::span(cold.end(), survivors.end());
  const int32_t n_head = std::min(first, n_head_) + static_cast<int32_t>(head.size());
  const int32_t first_cold = std::clamp(first, n_head_, cold_end) - n_head_;
  if (n_head == n_head_) {
    const int32_t first_f16 = first <= n_head_ ? n_head_ : std::max(first - n_cold(), n_head_);
    rows_.keep(first_f16, newest, n_cold());
  } else {
    std::vector<int32_t> rows(head.begin(), head.end());
    for (const int32_t slot : newest) rows.push_back(slot - n_cold());
    rows_.keep(std::min(first, n_head_), rows);
  }
  if (restored_rows_ != nullptr) restored_rows_->keep(first_cold, cold, n_head_);
  cold_->keep(first_cold, cold, n_head_);
  n_head_ = n_head;
}

int32_t LayerCache::demote(int32_t n_sinks, int32_t recent, ParallelFor& parallel,
                           EncodeScratch& scratch) {
  if (cold_ == nullptr) return 0;
  if (cold_->n_rows() == 0) n_head_ = std::min(n_sinks, n_slots_);
  const int32_t n_f16 = n_slots_ - n_cold();
  const int32_t unit = cold_->unit();
  const int32_t n = (n_f16 - n_head_ - recent) / unit * unit;
  if (n <= 0) return 0;
  const std::span<const int32_t> positions(positions_);
  const DemotedRows demoted{rows_, n_head_, n, positions.subspan(z(n_head_ + n_cold()), z(n)),
                            positions.first(z(n_head_))};
  if (!cold_->append(demoted, parallel, scratch)) return 0;
  survivors_.resize(static_cast<size_t>(n_f16 - n_head_ - n));
  std::iota(survivors_.begin(), survivors_.end(), n_head_ + n);
  rows_.keep(n_head_, survivors_);
  return n;
}

void LayerCache::read_row(int32_t slot, bool is_k, uint16_t* row) const {
  if (slot < n_head_ || slot >= n_head_ + n_cold()) {
    const int32_t f16_slot = slot < n_head_ ? slot : slot - n_cold();
    is_k ? rows_.read_k(f16_slot, row) : rows_.read_v(f16_slot, row);
    return;
  }
  const LayerGeometry& g = rows_.geometry();
  const int32_t head_dim = is_k ? g.head_dim_k : g.head_dim_v;
  float values[kMaxHeadDim];
  for (int32_t h = 0; h < g.n_kv_heads; ++h, row += head_dim) {
    if (is_k) {
      read_key(slot, h, values);
    } else {
      read_cold_v(h, read_order().row_of(slot), 1, values);
    }
    std::transform(values, values + head_dim, row, float_to_half);
  }
}

void LayerCache::read_key(int32_t slot, int32_t head, float* row) const {
  const int32_t head_dim = rows_.geometry().head_dim_k;
  if (slot >= n_head_ && slot < n_head_ + n_cold()) {
    read_cold_k(head, read_order().row_of(slot), 1, row);
    if (cold_->turned()) turn_row(row, head_dim);
    return;
  }
  const int32_t f16_slot = slot < n_head_ ? slot : slot - n_cold();
  const uint16_t* k = rows_.k(f16_slot / kPageSlots, head);
  for (int32_t d = 0; d < head_dim; ++d) {
    row[d] = half_to_float(k[F16Page::k_index(head_dim, f16_slot % kPageSlots, d)]);
  }
}

bool LayerCache::restore_row(int32_t cell, bool is_k, const uint16_t* row) {
  assert(placement_ == Placement::kByArrival && n_cold() == 0);
  if (!is_k) {
    const auto it = std::lower_bound(cells_.begin(), cells_.end(), cell);
    if (it == cells_.end() || *it != cell) return false;
    rows_.write_v(static_cast<int32_t>(it - cells_.begin()), row);
    return true;
  }
  if (!cells_.empty() && cells_.back() >= cell) return false;
  if (!rows_.reserve(n_slots_, 1)) return false;
  reserve_slots(n_slots_ + 1);
  rows_.write_k(n_slots_, row);
  identity_ = identity_ && cell == n_slots_;
  cells_.push_back(cell);
  most_cell_ = std::max(most_cell_, cell);
  positions_.push_back(cell);
  ++n_slots_;
  ++n_fresh_;
  state_.resize(static_cast<size_t>(n_slots_) * static_cast<size_t>(n_state_), 0.0F);
  restored_ = true;
  return true;
}

// A sequence that has a stream to itself has no gaps: its cells and positions count alike.
void LayerCache::place_restored(const TokenSpan& tokens) {
  if (!restored_) return;
  restored_ = false;
  const int32_t distance = tokens.positions.front() - tokens.cells.front();
  for (int32_t& position : positions_) position += distance;
}

void LayerCache::keep(int32_t first, std::span<const int32_t> survivors) {
  assert(placement_ == Placement::kByArrival && first <= n_slots_);
  keep_rows(first, survivors);
  if (index_ != nullptr) index_->forget_from(first);
  auto to = static_cast<size_t>(first);
  const auto n_state = static_cast<size_t>(n_state_);
  for (const int32_t from_slot : survivors) {
    const auto from = static_cast<size_t>(from_slot);
    identity_ = identity_ && from == to;
    cells_[to] = cells_[from];
    positions_[to] = positions_[from];
    for (size_t i = 0; i < n_state; ++i) state_[to * n_state + i] = state_[from * n_state + i];
    ++to;
  }
  cells_.resize(to);
  positions_.resize(to);
  state_.resize(to * n_state);
  n_slots_ = static_cast<int32_t>(to);
  if (n_slots_ == 0) identity_ = true;
}

bool LayerCache::reshape(const LayerGeometry& geometry, const KvKernels& kernels,
                         PageArena& arena) {
  assert(placement_ == Placement::kByCell);
  assert(geometry.width_k() == rows_.geometry().width_k() &&
         geometry.width_v() == rows_.geometry().width_v());
  F16Tier reshaped(geometry, kernels, arena);
  std::vector<uint16_t> row(static_cast<size_t>(std::max(geometry.width_k(), geometry.width_v())));
  for (int32_t slot = 0; slot < n_slots_; ++slot) {
    if (!rows_.has_page(slot / kPageSlots)) continue;
    if (!reshaped.reserve(slot, 1)) return false;
    rows_.read_k(slot, row.data());
    reshaped.write_k(slot, row.data());
    rows_.read_v(slot, row.data());
    reshaped.write_v(slot, row.data());
  }
  rows_.swap(reshaped);
  return true;
}

bool LayerCache::copy_from(const LayerCache& other) {
  assert(placement_ == other.placement_);
  if (!rows_.copy_from(other.rows_)) return false;
  if (cold_ != nullptr && !cold_->copy_from(*other.cold_)) return false;
  if (restored_rows_ != nullptr) restored_rows_->clear();
  n_head_ = other.n_head_;
  n_slots_ = other.n_slots_;
  n_fresh_ = other.n_fresh_;
  first_pending_ = other.first_pending_;
  restored_ = other.restored_;
  identity_ = other.identity_;
  cells_ = other.cells_;
  most_cell_ = other.most_cell_;
  positions_ = other.positions_;
  state_ = other.state_;
  slot_capacity_ = 0;
  reserve_slots(placement_ == Placement::kByArrival ? n_slots_ : 0);
  ring_.clear();
  if (index_ != nullptr) index_->clear();
  return true;
}

size_t LayerCache::metadata_bytes() const {
  return sizeof(*this) +
         (cells_.capacity() + positions_.capacity() + survivors_.capacity()) * sizeof(int32_t) +
         state_.capacity() * sizeof(float) + ring_.bytes() +
         (index_ == nullptr ? 0 : index_->bytes()) +
         (restored_rows_ == nullptr ? 0 : restored_rows_->bytes());
}

}  // namespace kvasir
