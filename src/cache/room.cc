#include "cache/room.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

std::vector<CacheLoad> loads_of(std::span<Cache* const> caches, std::span<const int32_t> n_new,
                                int32_t n_workers) {
  std::vector<CacheLoad> loads;
  loads.reserve(caches.size());
  for (const Cache* cache : caches) loads.push_back(cache->load(n_new, n_workers));
  return loads;
}

Error too_small(const CacheOptions& options, int64_t least_mib, int32_t n_ubatch,
                int32_t n_streams) {
  std::string message = "--kv-budget-mb " + std::to_string(options.budget_mb);
  message += ": sinks, protected tokens and workspace of ";
  message += std::to_string(n_streams);
  message += n_streams == 1 ? " sequence" : " sequences";
  message += " and one ubatch of ";
  message += std::to_string(n_ubatch);
  message += " tokens need " + std::to_string(least_mib);
  message += " MiB; give --kv-budget-mb " + std::to_string(least_mib);
  message += " or more, or a smaller -ub or -np";
  return Error{message};
}

void cut_all(std::span<Cache* const> caches, std::span<const CacheLoad> loads, const CapPlan& plan,
             int32_t level, ParallelFor& parallel) {
  std::vector<int32_t> keep;
  for (size_t c = 0; c < caches.size(); ++c) {
    Cache& cache = *caches[c];
    cache.give_back_workspace();
    if (!cache.evicts()) continue;
    for (int32_t s = 0; s < loads[c].n_streams; ++s) {
      keep.clear();
      keep.reserve(loads[c].shapes.size());
      for (size_t layer = 0; layer < loads[c].shapes.size(); ++layer) {
        keep.push_back(plan.kept(loads[c].shapes[layer], loads[c].load(layer, s), s, level));
      }
      cache.cut(s, keep, parallel);
    }
    cache.give_back_workspace();
  }
}

// What the budgets of the ubatch's streams may count on, where the cap alone sets them.
void set_allowances(std::span<Cache* const> caches, std::span<const int32_t> n_new, int64_t cap,
                    int32_t n_workers) {
  const std::vector<CacheLoad> loads = loads_of(caches, n_new, n_workers);
  const CapPlan plan(loads, n_new);
  int32_t most = 1;
  int32_t hint = 0;
  for (const Cache* cache : caches) {
    most = std::max(most, cache->config().n_cells);
    for (int32_t s = 0; cache->evicts() && s < cache->config().n_streams; ++s) {
      if (n_new[z(s)] > 0) hint = cache->allowance(s) == INT32_MAX ? hint : cache->allowance(s);
    }
  }
  const int32_t tokens = plan.allowance(cap, most, hint);
  for (Cache* cache : caches) {
    for (int32_t s = 0; s < cache->config().n_streams; ++s) {
      if (n_new[z(s)] > 0) cache->set_allowance(s, tokens);
    }
  }
}

}  // namespace

Result<void> make_room(std::span<Cache* const> caches, std::span<const int32_t> n_new,
                       int32_t n_ubatch, ParallelFor& parallel) {
  if (caches.empty()) return {};
  const CacheOptions& options = caches.front()->config().options;
  const int64_t cap = options.cap_bytes();
  const int32_t n_workers = parallel.n_workers();
  // What a cut leaves is known only when it is done: which tokens left says which references stay
  // and how full pages are. Where it is more than was counted on, a deeper cut follows.
  int64_t margin = 0;
  for (bool first = true;; first = false) {
    const std::vector<CacheLoad> loads = loads_of(caches, n_new, n_workers);
    const CapPlan plan(loads, n_new);
    const int64_t above = plan.bound_as_is() - cap;
    if (above <= 0) break;
    if (!first) margin = std::max(2 * margin, above);
    const std::optional<int32_t> level = plan.level(cap - margin);
    if (!level && first) {
      return too_small(options, smallest_cap_mib(caches, n_ubatch, n_workers), n_ubatch,
                       caches.front()->config().n_streams);
    }
    cut_all(caches, loads, plan, level.value_or(0), parallel);
    if (!level) break;
  }
  if (options.budget_from_cap()) set_allowances(caches, n_new, cap, n_workers);
  return {};
}

// Each stream with what may never leave; the tokens of the ubatch on one of them, and on each other
// as many as take a page of their own.
int64_t smallest_cap_mib(std::span<Cache* const> caches, int32_t n_ubatch, int32_t n_workers) {
  if (caches.empty()) return 0;
  const int32_t n_streams = caches.front()->config().n_streams;
  std::vector<int32_t> n_new(z(n_streams), std::min(n_ubatch, kPageSlots));
  n_new.front() = n_ubatch;
  std::vector<CacheLoad> loads = loads_of(caches, n_new, n_workers);
  for (CacheLoad& cache : loads) {
    cache.workspace_held = 0;
    for (size_t i = 0; i < cache.loads.size(); ++i) {
      const LayerShape& shape = cache.shapes[i / z(n_streams)];
      LayerLoad load;
      load.exists = true;
      load.n_queries = shape.n_queries;
      if (shape.n_cells > 0) {
        load.f16_pages = (shape.n_cells + kPageSlots - 1) / kPageSlots;
      } else {
        load.n_slots = load.n_f16 = shape.sinks + shape.protect;
        if (shape.references.any()) assume_worst(load.references);
      }
      cache.loads[i] = load;
    }
  }
  return whole_mib(CapPlan(loads, n_new).bound_at(0));
}

int32_t tokens_under_cap(std::span<Cache* const> caches, int32_t n_workers) {
  if (caches.empty()) return 0;
  const CacheConfig& config = caches.front()->config();
  const std::vector<int32_t> n_new(z(config.n_streams), 1);
  std::vector<CacheLoad> loads = loads_of(caches, n_new, n_workers);
  for (CacheLoad& cache : loads) {
    for (size_t i = 0; i < cache.loads.size(); ++i) {
      const int32_t n_cells = cache.shapes[i / z(n_new.size())].n_cells;
      cache.loads[i].exists = true;
      cache.loads[i].f16_pages = (n_cells + kPageSlots - 1) / kPageSlots;  // windows are full
    }
  }
  return CapPlan(loads, n_new).allowance(config.options.cap_bytes(), config.n_cells, 0);
}

Result<void> check_cap(std::span<Cache* const> caches, int32_t n_ubatch, int32_t n_workers) {
  if (caches.empty()) return {};
  const CacheOptions& options = caches.front()->config().options;
  const int64_t least = smallest_cap_mib(caches, n_ubatch, n_workers);
  if (least <= options.budget_mb) return {};
  return too_small(options, least, n_ubatch, caches.front()->config().n_streams);
}

}  // namespace kvasir
