#include "cache/reference_cap.h"

#include <algorithm>
#include <limits>

#include "cache/memory_cap.h"

namespace kvasir {
namespace {

constexpr int64_t kTableEntry = sizeof(void*);
constexpr int64_t kOwnBytes = sizeof(int32_t);
constexpr int64_t kNarrow = 0xFFFF;  // indices that fit into 16 bits beside "none"

int64_t whole(int64_t n, int64_t of) { return (n + of - 1) / of; }

int64_t brought(const ReferenceShape& shape, int64_t n_cold, int64_t n) {
  return n == 0 ? 0 : n / shape.unit * shape.per_unit + (n_cold == 0 ? shape.sinks : 0);
}

// Of n rows. Taken in several parts they bring more references, not fewer.
int64_t differences_of(const ReferenceShape& shape, int64_t n) {
  return n - (shape.stride == 0 ? 0 : whole(n, shape.stride));
}

int64_t wide_bytes(const ReferenceShape& shape, int64_t n_differences) {
  return whole(n_differences, shape.page_differences) * shape.page_differences * shape.neighbours;
}

}  // namespace

int64_t held_bytes(const ReferenceShape& shape, const ReferenceLoad& load) {
  return load.pages * shape.page + load.table * kTableEntry +
         load.index_capacity * shape.index_bytes + load.own_capacity * kOwnBytes +
         (int64_t{load.group_capacity} + load.scratch_capacity) * shape.group_bytes +
         load.wide_bytes;
}

int64_t differences_with(const ReferenceShape& shape, const ReferenceLoad& load, int64_t n) {
  return load.n_differences + differences_of(shape, n);
}

ReferenceBound reference_bound(const ReferenceShape& shape, const ReferenceLoad& load,
                               int64_t n_cold, int64_t n_demoted) {
  const int64_t n_new = brought(shape, n_cold, n_demoted);
  const int64_t n_indices = std::max<int64_t>(load.n_indices, load.n_live + n_new);
  const int64_t pages = std::max<int64_t>(load.pages, whole(n_indices, shape.page_rows));
  const int64_t groups = (n_cold + n_demoted) / shape.group_rows + 1;
  ReferenceBound bound;
  bound.pages = pages * shape.page;
  bound.tables = (pages <= load.table ? load.table : 2 * pages) * kTableEntry +
                 std::max<int64_t>(load.scratch_capacity, groups) * shape.group_bytes;
  if (n_demoted == 0) {
    return {bound.pages, bound.tables + load.index_capacity * shape.index_bytes +
                             load.own_capacity * kOwnBytes +
                             load.group_capacity * shape.group_bytes + load.wide_bytes};
  }
  bound.tables += grown(load.index_capacity, n_indices) * shape.index_bytes +
                  grown(load.own_capacity, load.n_own + n_new) * kOwnBytes +
                  grown(load.group_capacity, groups) * shape.group_bytes;
  // Vectors of what is added past the 65,534th double.
  const bool wide = load.wide_bytes > 0 || load.n_indices + n_new >= kNarrow;
  if (wide) {
    bound.tables +=
        std::max(load.wide_bytes, 2 * wide_bytes(shape, differences_with(shape, load, n_demoted)));
  }
  return bound;
}

void take_rows(const ReferenceShape& shape, ReferenceLoad& load, int64_t n_cold, int64_t n) {
  const auto n_new = static_cast<int32_t>(brought(shape, n_cold, n));
  load.n_differences = static_cast<int32_t>(differences_with(shape, load, n));
  load.n_own += n_new;
  load.n_live += n_new;
  load.n_indices = std::max(load.n_indices, load.n_live);
}

void cut_rows(const ReferenceShape& shape, ReferenceLoad& load, int64_t n_cold) {
  load.n_differences = static_cast<int32_t>(std::min<int64_t>(load.n_differences, n_cold));
  load.n_own = static_cast<int32_t>(std::min<int64_t>(load.n_own, n_cold));
  const int64_t needed = n_cold == 0 ? 0
                                     : int64_t{shape.sinks} + load.n_own +
                                           int64_t{shape.neighbours} * load.n_differences;
  load.n_live = static_cast<int32_t>(std::min<int64_t>(load.n_live, needed));
}

void give_back(const ReferenceShape& shape, ReferenceLoad& load, int64_t n_cold) {
  load.n_indices = load.index_capacity = load.n_live;
  load.pages = load.table = static_cast<int32_t>(whole(load.n_live, shape.page_rows));
  load.own_capacity = load.n_own;
  load.group_capacity = static_cast<int32_t>(whole(n_cold, shape.group_rows));
  load.scratch_capacity = 0;
  load.wide_bytes = load.n_live >= kNarrow ? wide_bytes(shape, load.n_differences) : 0;
}

void assume_worst(ReferenceLoad& load) {
  // take_rows() adds to it.
  load.n_live = load.n_indices = std::numeric_limits<int32_t>::max() / 2;
}

}  // namespace kvasir
