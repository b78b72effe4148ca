#include "cache/page_rows.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace kvasir {
namespace {

constexpr size_t kLine = 64 / sizeof(uint16_t);  // elements of a cache line

size_t page_elements(int32_t head_dim) {
  const size_t n = static_cast<size_t>(kPageSlots) * static_cast<size_t>(head_dim);
  return (n + kLine - 1) / kLine * kLine;
}

// Calls f(first row, rows, how many come before) for each run of consecutive rows of a page.
template <typename RunFn>
void for_runs(const PageRef& page, RunFn f) {
  if (page.rows == nullptr) return f(page.first, page.n, 0);
  for (int32_t begin = 0; begin < page.n;) {
    int32_t end = begin + 1;
    while (end < page.n && page.rows[end] == page.rows[end - 1] + 1) ++end;
    f(page.rows[begin], end - begin, begin);
    begin = end;
  }
}

// Copies single rows into scratch. Of K each channel lies on a line of its own.
void gather_f16(const F16Tier& rows, const PageRef& page, int32_t head, PageScratch& scratch,
                bool with_v) {
  const LayerGeometry& g = rows.geometry();
  for (int32_t i = 0; i < page.n; ++i) {
    const int32_t at = page.rows[i] / kPageSlots, slot = page.rows[i] % kPageSlots;
    const uint16_t* from = rows.k(at, head) + F16Page::k_index(g.head_dim_k, slot, 0);
    uint16_t* to = scratch.k() + F16Page::k_index(g.head_dim_k, i, 0);
    for (int32_t d = 0; d < g.head_dim_k; ++d, from += kLaneSlots, to += kLaneSlots) *to = *from;
    if (!with_v) continue;
    std::copy_n(rows.v(at, head) + ptrdiff_t{slot} * g.head_dim_v, g.head_dim_v,
                scratch.v() + ptrdiff_t{i} * g.head_dim_v);
  }
}

// The rows of a page that are not kept, as places in the page.
struct Missing {
  std::array<int32_t, kPageSlots> places;
  int32_t n = 0;
};

Missing find_missing(const LayerCache& rows, const PageRef& page, int32_t head) {
  const RestoredRows& kept = *rows.restored();
  Missing missing;
  std::array<int32_t, kPageSlots> slots;
  for (int32_t i = 0; i < page.n; ++i) {
    const int32_t entry = kept.entry(page.listed + i);
    if (entry >= 0) kept.fetch(entry, head);
    if (!kept.holds(entry, head)) {
      slots[static_cast<size_t>(missing.n)] = page.rows[i];
      missing.places[static_cast<size_t>(missing.n++)] = i;
    }
  }
  rows.fetch_cold(head, std::span(slots).first(static_cast<size_t>(missing.n)));
  return missing;
}

// K or V of a page of one head, row by row in f16: copied where it is kept; else restored, and kept
// where there is room.
void read_half(const LayerCache& rows, const PageRef& page, int32_t head, bool is_k,
               const Missing& missing, const KvKernels& kernels, float* restored, uint16_t* out) {
  const RestoredRows& kept = *rows.restored();
  const int32_t head_dim =
      is_k ? rows.rows().geometry().head_dim_k : rows.rows().geometry().head_dim_v;
  const auto at = [&](int32_t i) { return out + ptrdiff_t{i} * head_dim; };
  int32_t next = 0;  // of the missing ones
  for (int32_t i = 0; i < page.n; ++i) {
    const int32_t entry = kept.entry(page.listed + i);
    uint16_t* const place = entry < 0 ? nullptr : is_k ? kept.k(entry, head) : kept.v(entry, head);
    if (next == missing.n || missing.places[static_cast<size_t>(next)] != i) {
      std::copy_n(place, head_dim, at(i));
      continue;
    }
    ++next;
    if (is_k) {
      rows.read_cold_k(head, page.rows[i], 1, restored);
    } else {
      rows.read_cold_v(head, page.rows[i], 1, restored);
    }
    kernels.store_v(at(i), head_dim, 0, 1, restored, head_dim);
    if (place != nullptr) std::copy_n(at(i), head_dim, place);
  }
}

// Rows in groups of kLaneSlots, channel by channel; what lies behind the last one is not written.
void interleave(const uint16_t* rows, int32_t n, int32_t head_dim, uint16_t* page) {
  for (int32_t first = 0; first < n; first += kLaneSlots) {
    const int32_t width = std::min(kLaneSlots, n - first);
    const uint16_t* from = rows + ptrdiff_t{first} * head_dim;
    uint16_t* to = page + F16Page::k_index(head_dim, first, 0);
    for (int32_t d = 0; d < head_dim; ++d, ++from, to += kLaneSlots) {
      for (int32_t i = 0; i < width; ++i) to[i] = from[ptrdiff_t{i} * head_dim];
    }
  }
}

// Chosen rows of a tier whose restored rows are kept.
PageRows read_kept(const LayerCache& rows, const PageRef& page, int32_t head,
                   const KvKernels& kernels, PageScratch& scratch) {
  const int32_t head_dim = rows.rows().geometry().head_dim_k;
  const Missing missing = find_missing(rows, page, head);
  uint16_t* const keys = scratch.keys(head_dim);
  read_half(rows, page, head, true, missing, kernels, scratch.rows(), keys);
  interleave(keys, page.n, head_dim, scratch.k());
  read_half(rows, page, head, false, missing, kernels, scratch.rows(), scratch.v());
  RestoredRows& kept = *rows.restored();
  for (int32_t i = 0; i < missing.n; ++i) {
    const int32_t entry = kept.entry(page.listed + missing.places[static_cast<size_t>(i)]);
    if (entry >= 0) kept.fill(entry, head);
  }
  return {scratch.k(), scratch.v()};
}

}  // namespace

void PageScratch::reserve(int32_t head_dim_k, int32_t head_dim_v) {
  k_size_ = std::max(k_size_, page_elements(head_dim_k));
  const size_t n = k_size_ + page_elements(head_dim_v) + kLine;
  if (tiles_.size() < n) tiles_.resize(n);
  const size_t n_rows = page_elements(std::max(head_dim_k, head_dim_v));
  if (rows_.size() < n_rows) rows_.resize(n_rows);
}

uint16_t* PageScratch::keys(int32_t head_dim_k) {
  const size_t n = page_elements(head_dim_k);
  if (keys_.size() < n) keys_.resize(n);
  return keys_.data();
}

uint16_t* PageScratch::aligned(size_t offset) {
  const auto address = reinterpret_cast<uintptr_t>(tiles_.data());
  const uintptr_t up = (address + 63) / 64 * 64;
  return tiles_.data() + (up - address) / sizeof(uint16_t) + offset;
}

PageRows read_rows(const LayerCache& rows, const PageRef& page, int32_t head,
                   const KvKernels& kernels, PageScratch& scratch, bool with_v) {
  const LayerGeometry& g = rows.rows().geometry();
  if (!page.cold && page.rows == nullptr) {
    const int32_t at = page.first / kPageSlots;
    const ptrdiff_t skipped = page.first % kPageSlots;
    if (!rows.rows().has_page(at)) return {};
    return {rows.rows().k(at, head) + skipped * g.head_dim_k,
            rows.rows().v(at, head) + skipped * g.head_dim_v};
  }
  scratch.reserve(g.head_dim_k, g.head_dim_v);
  if (!page.cold) {
    gather_f16(rows.rows(), page, head, scratch, with_v);
    return {scratch.k(), scratch.v()};
  }
  if (page.listed >= 0 && rows.restored() != nullptr && with_v) {
    return read_kept(rows, page, head, kernels, scratch);
  }
  if (page.rows != nullptr) rows.fetch_cold(head, {page.rows, static_cast<size_t>(page.n)});
  for_runs(page, [&](int32_t first, int32_t n, int32_t at) {
    rows.read_cold_k(head, first, n, scratch.rows() + ptrdiff_t{at} * g.head_dim_k);
  });
  kernels.store_k(scratch.k(), g.head_dim_k, 0, page.n, scratch.rows(), g.head_dim_k);
  if (with_v) {
    for_runs(page, [&](int32_t first, int32_t n, int32_t at) {
      rows.read_cold_v(head, first, n, scratch.rows() + ptrdiff_t{at} * g.head_dim_v);
    });
    kernels.store_v(scratch.v(), g.head_dim_v, 0, page.n, scratch.rows(), g.head_dim_v);
  }
  return {scratch.k(), scratch.v()};
}

PageRows read_page(const LayerCache& rows, const ReadOrder& order, int32_t page, int32_t head,
                   const KvKernels& kernels, PageScratch& scratch, bool with_v) {
  const PageRef ref{order.first_in_tier(page), order.slots_in(page), order.is_cold(page)};
  return read_rows(rows, ref, head, kernels, scratch, with_v);
}

}  // namespace kvasir
