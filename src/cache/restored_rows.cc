#include "cache/restored_rows.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "cache/memory_cap.h"
#include "cache/scratch.h"

namespace kvasir {
namespace {

constexpr int32_t kMostPageRows = 64;
constexpr uint32_t kAges = 64;  // steps that are told apart; older ones count alike

size_t z(int64_t n) { return static_cast<size_t>(n); }

size_t bytes_of_row(const LayerGeometry& g) {
  return z(g.width_k() + g.width_v()) * sizeof(uint16_t);
}

}  // namespace

RestoredRows::RestoredRows(const LayerGeometry& geometry, int32_t most, PageArena& arena)
    : geometry_(geometry),
      most_(most),
      arena_(&arena),
      row_bytes_(bytes_of_row(geometry)),
      page_rows_(PageArena::thrifty_count(row_bytes_, kMostPageRows)),
      page_bytes_(row_bytes_ * z(page_rows_)) {}

RestoredRows::~RestoredRows() { clear(); }

uint16_t* RestoredRows::k(int32_t entry, int32_t head) const {
  std::byte* row = pages_[z(entry / page_rows_)] + z(entry % page_rows_) * row_bytes_;
  return reinterpret_cast<uint16_t*>(row) +
         ptrdiff_t{head} * (geometry_.head_dim_k + geometry_.head_dim_v);
}

void RestoredRows::fetch(int32_t entry, int32_t head) const {
  constexpr ptrdiff_t kLine = 64 / sizeof(uint16_t);
  const uint16_t* from = k(entry, head);
  const ptrdiff_t n = geometry_.head_dim_k + geometry_.head_dim_v;
  for (ptrdiff_t at = 0; at < n; at += kLine) __builtin_prefetch(from + at, 1, 3);
  __builtin_prefetch(from + n - 1, 1, 3);
}

// Twice what a step reads, so that a row which one step leaves out is found by the one behind it.
int32_t RestoredRows::n_wanted(int32_t n, int32_t n_rows) {
  constexpr int32_t kShare = 8;  // of the demoted rows: what is kept is small beside them
  return std::min(2 * n, std::max(n_rows / kShare, kMostPageRows));
}

// Takes away what `leaves` says, asked in the order of rows.
template <typename Leaves>
void RestoredRows::drop(Leaves leaves) {
  auto to = held_.begin();
  for (Held& held : held_) {
    if (leaves(held)) {
      free_.push_back(held.entry);
    } else {
      *to++ = held;
    }
  }
  held_.erase(to, held_.end());
}

// --- A step ---

// Room for n rows, or as many as there is memory for: without it rows are restored each time.
void RestoredRows::grow(int32_t n) {
  const int32_t n_pages = (n + page_rows_ - 1) / page_rows_;
  if (n_pages <= static_cast<int32_t>(pages_.size())) return;
  const int64_t n_entries = int64_t{n_pages} * page_rows_;
  const auto room = [](auto& values, int64_t need) {
    const auto capacity = static_cast<int64_t>(values.capacity());
    if (need > capacity) values.reserve(z(grown(capacity, need)));
  };
  room(pages_, n_pages);
  room(filled_, n_entries * geometry_.n_kv_heads);
  room(free_, n_entries);
  room(held_, n_entries);
  room(merged_, n_entries);
  while (static_cast<int32_t>(pages_.size()) < n_pages) {
    std::byte* page = arena_->allocate(page_bytes_);
    if (page == nullptr) return;
    const auto first = static_cast<int32_t>(pages_.size()) * page_rows_;
    pages_.push_back(page);
    filled_.resize(z(first + page_rows_) * z(geometry_.n_kv_heads));
    for (int32_t i = page_rows_ - 1; i >= 0; --i) free_.push_back(first + i);
  }
}

// Marks what of `rows` is held; how many of them are not.
int32_t RestoredRows::find(std::span<const int32_t> rows) {
  int32_t n_missing = 0;
  auto held = held_.begin();
  entries_.clear();
  for (const int32_t row : rows) {
    while (held != held_.end() && held->row < row) ++held;
    const bool found = held != held_.end() && held->row == row;
    if (found) held->step = step_;
    entries_.push_back(found ? held->entry : -1);
    n_missing += found ? 0 : 1;
  }
  return n_missing;
}

// Gives up rows that this step does not read, those first that were read longest ago, until n
// entries are free or none is left that could be.
void RestoredRows::make_room(int32_t n) {
  int64_t excess = int64_t{n} - static_cast<int64_t>(free_.size());
  if (excess <= 0) return;
  const auto age_of = [this](const Held& held) { return std::min(step_ - held.step, kAges - 1); };
  std::array<int64_t, kAges> counts{};
  for (const Held& held : held_) ++counts[age_of(held)];
  uint32_t oldest = kAges - 1;  // all older ones leave, and `excess` of these
  while (oldest > 0 && counts[oldest] < excess) excess -= counts[oldest--];
  if (oldest == 0) excess = 0;
  drop([&](Held& held) {
    const uint32_t age = age_of(held);
    return age > oldest || (age == oldest && excess-- > 0);
  });
}

// Gives free entries to the rows that have none, as far as they go.
void RestoredRows::take_in(std::span<const int32_t> rows) {
  merged_.clear();
  auto held = held_.begin();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (entries_[i] >= 0 || free_.empty()) continue;
    const int32_t entry = free_.back();
    free_.pop_back();
    entries_[i] = entry;
    std::fill_n(filled_.begin() + static_cast<ptrdiff_t>(flag_at(entry, 0)), geometry_.n_kv_heads,
                uint8_t{0});
    for (; held != held_.end() && held->row < rows[i]; ++held) merged_.push_back(*held);
    merged_.push_back({rows[i], entry, step_});
  }
  merged_.insert(merged_.end(), held, held_.end());
  held_.swap(merged_);
}

void RestoredRows::plan(std::span<const int32_t> rows, int32_t n_rows) {
  assert(std::is_sorted(rows.begin(), rows.end()));
  ++step_;
  const auto n = static_cast<int32_t>(rows.size());
  if (entries_.capacity() < rows.size()) {
    entries_.reserve(z(grown(static_cast<int64_t>(entries_.capacity()), n)));
  }
  const int32_t n_missing = find(rows);
  grow(std::min(most_ == kUsualRestored ? n_wanted(n, n_rows) : most_,
                static_cast<int32_t>(held_.size()) + n_missing));
  n_read_ += n;
  n_found_ += n - n_missing;
  if (n_missing == 0) return;
  make_room(n_missing);
  take_in(rows);
}

// --- Leaving ---

void RestoredRows::keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) {
  auto next = survivors.begin();
  drop([&](Held& held) {
    if (held.row < first) return false;
    next = std::lower_bound(next, survivors.end(), held.row + offset);
    if (next == survivors.end() || *next != held.row + offset) return true;
    held.row = first + static_cast<int32_t>(next - survivors.begin());
    return false;
  });
  entries_.clear();
  if (first == 0 && survivors.empty()) clear();
}

void RestoredRows::clear() {
  for (std::byte* page : pages_) arena_->release(page, page_bytes_);
  give_back(pages_);
  give_back(filled_);
  give_back(free_);
  give_back(held_);
  give_back(merged_);
  give_back(entries_);
}

size_t RestoredRows::most_bytes(const LayerGeometry& geometry, int32_t n_kept, int32_t n_read) {
  const size_t row_bytes = bytes_of_row(geometry);
  const int32_t page_rows = PageArena::thrifty_count(row_bytes, kMostPageRows);
  const int64_t n_pages = (int64_t{n_kept} + page_rows - 1) / page_rows;
  const auto list = [](int64_t n, size_t size) { return z(grown(0, n)) * size; };
  const int64_t n_entries = n_pages * page_rows;
  return sizeof(RestoredRows) + z(n_pages) * PageArena::footprint(row_bytes * z(page_rows)) +
         list(n_pages, sizeof(std::byte*)) + list(n_entries * geometry.n_kv_heads, 1) +
         list(n_entries, sizeof(int32_t)) + 2 * list(n_entries, sizeof(Held)) +
         list(n_read, sizeof(int32_t));
}

size_t RestoredRows::bytes() const {
  return sizeof(*this) + pages_.size() * PageArena::footprint(page_bytes_) +
         pages_.capacity() * sizeof(std::byte*) + filled_.capacity() +
         (free_.capacity() + entries_.capacity()) * sizeof(int32_t) +
         (held_.capacity() + merged_.capacity()) * sizeof(Held);
}

}  // namespace kvasir
