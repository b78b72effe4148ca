#include "cache/read_plan.h"

#include <algorithm>
#include <cassert>

#include "cache/mask_view.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

// Rows of a group that must be read for it to be read in place. A row of K touches as many cache
// lines as its group; of V 16 rows are read instead of one.
constexpr size_t kDenseGroup = 2;

}  // namespace

// True if the slots are those of the last call. Most layers hold the same tokens at the same slots:
// then each chosen position is found where it was.
bool ReadPlan::find_slots(const LayerCache& rows, const ReadSet& set) {
  const auto positions = rows.positions();
  const ReadOrder order = rows.read_order();
  const auto begin = positions.begin();
  const auto first = std::lower_bound(begin, positions.end(), set.first) - begin;
  const auto last = std::lower_bound(begin + first, positions.end(), set.last) - begin;
  if (set.version == version_ && order_.n_slots == order.n_slots && order_.n_head == order.n_head &&
      order_.n_cold == order.n_cold) {
    const auto at = [&](int32_t slot) { return positions[z(slot)]; };
    const auto chosen = std::span(slots_).subspan(z(first));
    if (chosen.size() >= set.positions.size() &&
        slots_.size() == z(first) + set.positions.size() + (positions.size() - z(last)) &&
        std::equal(set.positions.begin(), set.positions.end(), chosen.begin(),
                   [&](int32_t position, int32_t slot) { return at(slot) == position; })) {
      return true;
    }
  }
  version_ = set.version;
  order_ = order;
  slots_.clear();
  for (int32_t slot = 0; slot < first; ++slot) slots_.push_back(slot);
  auto from = begin + first;
  for (const int32_t position : set.positions) {
    if (from == begin + last) break;
    // Positions and slots mostly go up by one alike.
    if (*from != position) from = std::lower_bound(from, begin + last, position);
    if (from == begin + last || *from != position) continue;  // this layer does not hold it
    slots_.push_back(static_cast<int32_t>(from - begin));
    ++from;
  }
  for (auto slot = static_cast<int32_t>(last); slot < order.n_slots; ++slot) {
    slots_.push_back(slot);
  }
  return false;
}

// Of the four groups of a page of a tier two may lie in place with a gap between them, which takes
// two pages; the tokens of a gap, or of a tier that is not read in place, are gathered. Each of
// three parts (see build) may begin and end in the middle.
int64_t ReadPlan::most_pages(int64_t n_slots) {
  constexpr int64_t kInPlace = 2;
  constexpr int64_t kGathered = kDenseGroup - 1;  // of a group
  return (n_slots / kPageSlots + 3) * kInPlace + n_slots * kGathered / kLaneSlots / kPageSlots + 3;
}

int64_t ReadPlan::most_bytes(int64_t n_slots) {
  const int64_t n = most_pages(n_slots);
  const int64_t room = n + n / 4 + 16;  // see open_page
  constexpr int64_t kNumber = sizeof(int32_t);
  return room * (int64_t{sizeof(Page)} + 2 * kNumber * kPageSlots) + 2 * n_slots * kNumber;
}

// How many pages a choice takes differs from step to step, so there is room for some more.
void ReadPlan::open_page(int32_t first, bool cold) {
  if (pages_.size() == pages_.capacity()) {
    const size_t n = pages_.size() + pages_.size() / 4 + 16;
    pages_.reserve(n);
    cells_.reserve(n * kPageSlots);
    rows_.reserve(n * kPageSlots);
  }
  pages_.push_back({first, 0, cold});
  cells_.resize(pages_.size() * kPageSlots, kNoCell);
  rows_.resize(pages_.size() * kPageSlots, 0);
}

void ReadPlan::gather(const LayerCache& rows, size_t begin, size_t end, bool cold) {
  for (size_t i = begin; i < end; ++i) {
    if (gathered_ < 0 || pages_[z(gathered_)].n == kPageSlots) {
      gathered_ = n_pages();
      open_page(-1, cold);
    }
    if (cold && n_listed_++ == 0) first_listed_ = z(gathered_) * kPageSlots;
    Page& page = pages_[z(gathered_)];
    const size_t place = z(gathered_) * kPageSlots + z(page.n++);
    rows_[place] = order_.row_of(slots_[i]);
    cells_[place] = rows.cells()[z(slots_[i])];
  }
}

// Slots [begin, end) of slots_, whose rows are of one group, in place: behind the last page where
// they go on there.
void ReadPlan::add_group(const LayerCache& rows, size_t begin, size_t end, bool cold) {
  const int32_t first = order_.row_of(slots_[begin]) / kLaneSlots * kLaneSlots;
  const bool goes_on =
      !pages_.empty() && pages_.back().first >= 0 && pages_.back().cold == cold &&
      pages_.back().first / kPageSlots == first / kPageSlots &&
      (pages_.back().first + pages_.back().n + kLaneSlots - 1) / kLaneSlots == first / kLaneSlots;
  if (!goes_on) open_page(first, cold);
  Page& page = pages_.back();
  for (size_t i = begin; i < end; ++i) {
    const int32_t in_page = order_.row_of(slots_[i]) - page.first;
    cells_[(pages_.size() - 1) * kPageSlots + z(in_page)] = rows.cells()[z(slots_[i])];
    page.n = in_page + 1;
  }
}

// Slots [begin, end) of slots_, whose rows ascend in one tier.
void ReadPlan::add_tier(const LayerCache& rows, size_t begin, size_t end, bool cold,
                        bool in_place) {
  if (!in_place) return gather(rows, begin, end, cold);
  const int32_t n_rows = cold ? order_.n_cold : order_.n_f16();
  while (begin < end) {
    const int32_t group = order_.row_of(slots_[begin]) / kLaneSlots;
    size_t next = begin;
    while (next < end && order_.row_of(slots_[next]) / kLaneSlots == group) ++next;
    const int32_t size = std::min(kLaneSlots, n_rows - group * kLaneSlots);
    if (next - begin >= std::min(kDenseGroup, z(size))) {
      add_group(rows, begin, next, cold);
    } else {
      gather(rows, begin, next, cold);
    }
    begin = next;
  }
}

void ReadPlan::build(const LayerCache& rows, const ReadSet& set, bool coded) {
  assert(rows.placement() == Placement::kByArrival);
  const bool same = find_slots(rows, set) && coded == coded_;
  if (same) return;
  coded_ = coded;
  n_read_ = static_cast<int32_t>(slots_.size());
  pages_.clear();
  cells_.clear();
  rows_.clear();
  first_listed_ = n_listed_ = 0;
  const auto split = [&](int32_t slot) {
    return z(std::lower_bound(slots_.begin(), slots_.end(), slot) - slots_.begin());
  };
  const size_t cold_begin = split(order_.n_head);
  const size_t cold_end = split(order_.n_head + order_.n_cold);
  // Kernels want groups on cache lines: with an odd head_dim they are not.
  const LayerGeometry& g = rows.rows().geometry();
  const bool even = g.head_dim_k % 2 == 0 && g.head_dim_v % 2 == 0;
  gathered_ = -1;
  if (order_.n_cold == 0) {
    add_tier(rows, 0, slots_.size(), false, even);
    return;
  }
  add_tier(rows, 0, cold_begin, false, even);
  add_tier(rows, cold_end, slots_.size(), false, even);
  gathered_ = -1;
  add_tier(rows, cold_begin, cold_end, true, coded);
}

}  // namespace kvasir
