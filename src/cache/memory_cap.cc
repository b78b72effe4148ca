#include "cache/memory_cap.h"

#include <algorithm>
#include <limits>

#include "kernels/kernels.h"

namespace kvasir {
namespace {

constexpr int64_t kTableEntry = sizeof(void*);
constexpr int64_t kChunkEntry = sizeof(std::vector<std::byte>);
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

int64_t pages_of(int64_t rows, int64_t page_slots) { return (rows + page_slots - 1) / page_slots; }
int64_t f16_pages_of(int64_t rows) { return pages_of(rows, kPageSlots); }

bool demotes(const LayerShape& shape) { return shape.cold_page_slots > 0; }

int64_t head_of(const LayerShape& shape, const LayerLoad& load, int64_t n_slots) {
  return load.n_cold > 0 ? load.n_head : std::min<int64_t>(shape.sinks, n_slots);
}

// Rows that LayerCache::demote takes when there are n_f16 in the f16 tier.
int64_t demotable(const LayerShape& shape, const LayerLoad& load, int64_t n_f16) {
  if (!demotes(shape)) return 0;
  const int64_t n = n_f16 - head_of(shape, load, n_f16) - shape.recent;
  return n <= 0 ? 0 : n / shape.unit * shape.unit;
}

int64_t table_bound(int64_t entries, int64_t need) {
  return (need <= entries ? entries : 2 * need) * kTableEntry;
}

int64_t block_bound(const BlockShape& shape, const BlockLoad& load, int64_t n_rows) {
  if (shape.bytes == 0) return 0;
  const int64_t n_new = (n_rows + shape.rows - 1) / shape.rows;
  const int64_t slots = std::max<int64_t>(load.slots, load.live + n_new);
  return grown_blocks(load.capacity, slots) * shape.bytes;
}

int64_t chunks_of(const LayerShape& shape, int64_t n_slots) {
  return shape.chunk_bytes == 0 ? 0 : pages_of(n_slots, shape.chunk_slots);
}

// An index of keys, which covers no more than all tokens. Items of moved rows are forgotten, table
// and all, which then grows anew: to twice what it must hold, whatever it holds now.
int64_t chunk_bound(const LayerShape& shape, const LayerLoad& load, int64_t n_slots) {
  const int64_t n = std::max<int64_t>(load.chunks, chunks_of(shape, n_slots));
  return n * shape.chunk_bytes + std::max<int64_t>(load.chunk_table, 2 * n) * kChunkEntry;
}

// Pages of demoted rows when n_demoted more are taken. A row that is a reference needs none.
int64_t cold_pages_with(const LayerShape& shape, const LayerLoad& load, int64_t n_demoted) {
  const int64_t n_rows = shape.references.any()
                             ? differences_with(shape.references, load.references, n_demoted)
                             : load.n_cold + n_demoted;
  return std::max<int64_t>(load.cold_pages, pages_of(n_rows, shape.cold_page_slots));
}

int64_t query_bound(const LayerShape& shape, const LayerLoad& load, int64_t n_new) {
  const int64_t n = std::min<int64_t>(shape.n_queries, load.n_queries + n_new);
  return (n <= 1 ? n : int64_t{shape.n_queries}) * shape.query_bytes;
}

void demote_all(const LayerShape& shape, LayerLoad& load) {
  const auto n = static_cast<int32_t>(demotable(shape, load, load.n_f16));
  if (n == 0) return;
  if (load.n_cold == 0) load.n_head = std::min(shape.sinks, load.n_slots);
  if (shape.references.any()) take_rows(shape.references, load.references, load.n_cold, n);
  load.n_f16 -= n;
  load.n_cold += n;
  for (const auto& [blocks, of] :
       {std::pair(&load.k_blocks, &shape.k_blocks), std::pair(&load.v_blocks, &shape.v_blocks)}) {
    if (of->bytes > 0) blocks->live += (n + of->rows - 1) / of->rows;
  }
}

// Nothing is allocated, nor referred to, that is not needed.
void give_back(const LayerShape& shape, LayerLoad& load) {
  if (shape.references.any()) {
    cut_rows(shape.references, load.references, load.n_cold);
    give_back(shape.references, load.references, load.n_cold);
  }
  load.f16_pages = load.f16_table = static_cast<int32_t>(f16_pages_of(load.n_f16));
  if (demotes(shape)) {
    load.cold_pages = 0;
    load.cold_pages = load.cold_table = static_cast<int32_t>(cold_pages_with(shape, load, 0));
  }
  load.chunks = load.chunk_table =
      static_cast<int32_t>(std::min<int64_t>(load.chunks, chunks_of(shape, load.n_slots)));
  load.slot_capacity = load.n_slots;
  for (BlockLoad* blocks : {&load.k_blocks, &load.v_blocks}) {
    blocks->slots = blocks->capacity = blocks->live;
  }
  load.other_bytes = 0;
}

}  // namespace

int64_t held_bytes(const LayerShape& shape, const LayerLoad& load) {
  if (!load.exists) return 0;
  return shape.object_bytes + load.f16_pages * shape.f16_page + load.cold_pages * shape.cold_page +
         held_bytes(shape.references, load.references) + (load.n_cold > 0 ? shape.cold_fixed : 0) +
         load.chunks * shape.chunk_bytes + load.chunk_table * kChunkEntry +
         (int64_t{load.f16_table} + load.cold_table) * kTableEntry +
         load.slot_capacity * shape.slot_bytes + load.k_blocks.capacity * shape.k_blocks.bytes +
         load.v_blocks.capacity * shape.v_blocks.bytes + load.n_queries * shape.query_bytes +
         load.other_bytes;
}

int64_t bound_bytes(const LayerShape& shape, const LayerLoad& load, int32_t n_new,
                    int64_t& passing) {
  passing = 0;
  if (!load.exists && n_new == 0) return 0;
  if (shape.n_cells > 0) {  // each token may lie in a page of its own
    const int64_t all = f16_pages_of(shape.n_cells);
    const int64_t pages =
        std::min<int64_t>(std::max<int64_t>(load.f16_pages, all), int64_t{load.f16_pages} + n_new);
    return shape.object_bytes + pages * shape.f16_page + table_bound(load.f16_table, all) +
           load.other_bytes;
  }
  const int64_t n_f16 = int64_t{load.n_f16} + n_new;
  const int64_t n_slots = int64_t{load.n_slots} + n_new;
  const int64_t f16_before = std::max<int64_t>(load.f16_pages, f16_pages_of(n_f16));
  const int64_t n_demoted = demotable(shape, load, n_f16);
  int64_t f16_after = f16_before;
  int64_t cold_after = load.cold_pages;
  if (n_demoted > 0) {
    f16_after = std::min(f16_before, f16_pages_of(n_f16 - n_demoted) + 1);  // one spare
    cold_after = cold_pages_with(shape, load, n_demoted);
  }
  ReferenceBound references;
  if (shape.references.any()) {
    references = reference_bound(shape.references, load.references, load.n_cold, n_demoted);
  }
  const int64_t cold_bytes_before =
      load.cold_pages * shape.cold_page + load.references.pages * shape.references.page;
  const int64_t cold_bytes_after = cold_after * shape.cold_page + references.pages;
  const int64_t pages = std::max(f16_before * shape.f16_page + cold_bytes_before,
                                 f16_after * shape.f16_page + cold_bytes_after);
  passing = f16_before * shape.f16_page + cold_bytes_after - pages;
  return shape.object_bytes + pages + table_bound(load.f16_table, f16_before) +
         (demotes(shape) ? table_bound(load.cold_table, cold_after) : 0) + references.tables +
         (load.n_cold + n_demoted > 0 ? shape.cold_fixed : 0) +
         grown(load.slot_capacity, n_slots) * shape.slot_bytes +
         block_bound(shape.k_blocks, load.k_blocks, n_demoted) +
         block_bound(shape.v_blocks, load.v_blocks, n_demoted) + chunk_bound(shape, load, n_slots) +
         query_bound(shape, load, n_new) + load.other_bytes;
}

LayerLoad cut_to(const LayerShape& shape, const LayerLoad& load, int32_t keep) {
  LayerLoad cut = load;
  if (!load.exists || shape.n_cells > 0) return cut;
  demote_all(shape, cut);
  if (keep < cut.n_slots) {
    const int32_t stays = std::min(keep, shape.sinks + shape.protect);  // never demoted, if recent
    // Where f16 rows leave first, up to a unit less is demoted than else would be.
    const int64_t most_f16 =
        demotes(shape) ? std::min<int64_t>(load.n_f16, int64_t{cut.n_f16} + shape.unit - 1)
                       : cut.n_f16;
    cut.n_slots = keep;
    cut.n_f16 = static_cast<int32_t>(std::min<int64_t>(most_f16, keep));
    cut.n_cold = std::min(cut.n_cold, keep - (shape.protect <= shape.recent ? stays : 0));
  }
  give_back(shape, cut);
  return cut;
}

LayerLoad filled_to(const LayerShape& shape, const LayerLoad& load, int32_t keep) {
  if (shape.n_cells > 0) return load;
  if (keep <= load.n_slots) return cut_to(shape, load, keep);
  LayerLoad full = load;
  full.exists = true;
  full.n_f16 += keep - load.n_slots;
  full.n_slots = keep;
  demote_all(shape, full);
  give_back(shape, full);
  return full;
}

int32_t CapPlan::kept(const LayerShape& shape, const LayerLoad& load, int32_t stream,
                      int32_t level) const {
  const int32_t least = std::min(load.n_slots, shape.sinks + shape.protect);
  const int32_t old = std::max(0, level - n_new_[static_cast<size_t>(stream)]);
  return std::clamp(old, least, std::max(least, load.n_slots));
}

template <typename LoadOf>
int64_t CapPlan::bound(LoadOf load_of, bool trimmed) const {
  int64_t sum = 0;
  int64_t most_passing = 0;
  for (const CacheLoad& cache : caches_) {
    int64_t most_slots = 0;
    for (size_t layer = 0; layer < cache.shapes.size(); ++layer) {
      for (int32_t s = 0; s < cache.n_streams; ++s) {
        const int32_t n_new = n_new_[static_cast<size_t>(s)];
        const LayerLoad load = load_of(cache.shapes[layer], cache.load(layer, s), s);
        int64_t passing = 0;
        sum += bound_bytes(cache.shapes[layer], load, n_new, passing);
        most_passing = std::max(most_passing, passing);
        most_slots = std::max(most_slots, int64_t{load.n_slots} + n_new);
      }
    }
    sum += cache.fixed_bytes + (trimmed ? 0 : cache.workspace_held) + cache.workspace(most_slots);
    most_passing = std::max(most_passing, 16 * most_slots);  // a vector that moves to grow
  }
  return sum + most_passing;
}

int64_t CapPlan::held() const {
  int64_t sum = 0;
  for (const CacheLoad& cache : caches_) {
    sum += cache.workspace_held + cache.fixed_bytes;
    for (size_t i = 0; i < cache.loads.size(); ++i) {
      sum += held_bytes(cache.shapes[i / static_cast<size_t>(cache.n_streams)], cache.loads[i]);
    }
  }
  return sum;
}

int64_t CapPlan::bound_as_is() const {
  return bound([](const LayerShape&, const LayerLoad& load, int32_t) { return load; }, false);
}

int64_t CapPlan::bound_at(int32_t level) const {
  return bound(
      [&](const LayerShape& shape, const LayerLoad& load, int32_t stream) {
        return cut_to(shape, load, kept(shape, load, stream, level));
      },
      true);
}

int64_t CapPlan::bound_filled(int32_t level) const {
  return bound(
      [&](const LayerShape& shape, const LayerLoad& load, int32_t stream) {
        if (arrives(stream)) return filled_to(shape, load, level);
        const int32_t least = std::min(load.n_slots, shape.sinks + shape.protect);
        return cut_to(shape, load, std::clamp(level, least, std::max(least, load.n_slots)));
      },
      false);
}

std::optional<int32_t> CapPlan::level(int64_t cap) const {
  if (bound_at(0) > cap) return std::nullopt;
  int64_t most = 0;
  for (const CacheLoad& cache : caches_) {
    for (size_t i = 0; i < cache.loads.size(); ++i) {
      const size_t stream = i % static_cast<size_t>(cache.n_streams);
      most = std::max(most, int64_t{cache.loads[i].n_slots} + n_new_[stream]);
    }
  }
  int64_t fits = 0;
  for (int64_t end = std::min(most, kMost) + 1; end - fits > 1;) {
    const int64_t middle = fits + (end - fits) / 2;
    (bound_at(static_cast<int32_t>(middle)) <= cap ? fits : end) = middle;
  }
  return static_cast<int32_t>(fits);
}

int32_t CapPlan::allowance(int64_t cap, int32_t most, int32_t hint) const {
  const auto holds = [&](int32_t level) { return bound_filled(level) <= cap; };
  int32_t fits = 1;
  int32_t end = most + 1;
  if (hint > 0 && hint <= most) {  // steps are alike
    if (holds(hint)) {
      if (hint == most || !holds(hint + 1)) return hint;
      fits = hint + 1;
    } else {
      end = hint;
    }
  }
  while (end - fits > 1) {
    const int32_t middle = fits + (end - fits) / 2;
    (holds(middle) ? fits : end) = middle;
  }
  return fits;
}

}  // namespace kvasir
