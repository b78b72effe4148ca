#include "app/cost.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cache/format_spec.h"
#include "cache/room.h"
#include "kernels/kernels.h"

namespace kvasir::app {
namespace {

// Live tokens that `budget` leaves of `tokens` in a layer, for a step of confidence c.
int64_t live_tokens(const BudgetRule* budget, int64_t tokens, double c, int32_t layer,
                    int32_t n_layers) {
  if (budget == nullptr) return tokens;
  Confidence confidence;
  confidence.c = c;
  confidence.valid = true;
  StepState step{true, &confidence};
  step.n_tokens = static_cast<int32_t>(tokens);
  return std::min<int64_t>(tokens, budget->tokens(step, {layer, n_layers, 0}));
}

// f16 rows come in whole pages.
int64_t row_bytes(const LayerGeometry& layer, int64_t tokens) {
  const int64_t pages = (tokens + kPageSlots - 1) / kPageSlots;
  return pages * kPageSlots * layer.f16_bytes_per_token();
}

// Rows of a layer of which all but the sinks and the newest are demoted, in whole blocks.
int64_t tiered_bytes(const LayerGeometry& layer, const RowCodecs& codecs,
                     const CacheOptions& options, int64_t tokens) {
  if (!codecs.demotes()) return row_bytes(layer, tokens);
  const int64_t older = std::max<int64_t>(0, tokens - options.params.sinks - options.recent);
  const int64_t demoted = older / codecs.unit() * codecs.unit();
  const double per_token =
      demoted_token_bytes(codecs, options.residual, options.rank_percent,
                          {layer.n_kv_heads, layer.head_dim_k, layer.head_dim_v});
  return row_bytes(layer, tokens - demoted) +
         static_cast<int64_t>(per_token * static_cast<double>(demoted));
}

Cost cost_of(const ModelInfo& model, const BudgetRule* budget, const FormatSpec& formats,
             const CacheOptions& options, int64_t tokens, int64_t chunk) {
  Cost cost;
  cost.tokens = tokens;
  // Layers as the cache with a budget counts them.
  const auto n_layers = static_cast<int32_t>(std::count_if(
      model.layers.begin(), model.layers.end(),
      [](const LayerGeometry& layer) { return layer.n_kv_heads > 0 && layer.window == 0; }));
  int32_t index = 0;
  const bool streams = options.prefill == PrefillMode::kStream && budget != nullptr;
  for (int32_t il = 0; il < model.n_layers(); ++il) {
    const LayerGeometry& layer = model.layers[static_cast<size_t>(il)];
    if (layer.n_kv_heads == 0) continue;
    if (layer.window > 0) {
      const int64_t bytes = row_bytes(layer, std::min<int64_t>(tokens, layer.window));
      cost.full_bytes += bytes;
      cost.steady_bytes += bytes;
      cost.peak_bytes += bytes;
      continue;
    }
    const int64_t sure = live_tokens(budget, tokens, 1.0, index, n_layers);
    const int64_t unsure = live_tokens(budget, tokens, 0.0, index, n_layers);
    const RowCodecs codecs = formats.of_layer(index, n_layers);
    ++index;
    cost.live_sure = std::max(cost.live_sure, std::min(sure, unsure));
    cost.live_unsure = std::max({cost.live_unsure, sure, unsure});
    cost.full_bytes += row_bytes(layer, tokens);
    cost.steady_bytes += tiered_bytes(layer, codecs, options, std::max(sure, unsure));
    const int64_t at_peak = streams ? std::min(tokens, std::max(sure, unsure) + chunk) : tokens;
    cost.peak_bytes += row_bytes(layer, at_peak);
  }
  return cost;
}

// Where a model does not say how long its contexts are.
constexpr int32_t kSomeContext = 131072;
constexpr int32_t kCellRounding = 256;  // llama.cpp's, of a sliding-window cache

// A cache that holds nothing, of the layers with a sliding window or of the others; null where
// there are none.
Result<std::unique_ptr<Cache>> empty_cache(const ModelInfo& model, const CacheOptions& options,
                                           int32_t n_streams, int32_t n_ubatch, bool windows) {
  int32_t window = 0;
  for (const LayerGeometry& layer : model.layers) window = std::max(window, layer.window);
  CacheConfig config;
  config.n_streams = n_streams;
  config.n_cells = model.context_length > 0 ? model.context_length : kSomeContext;
  if (windows) {
    config.n_cells = (window + n_ubatch + kCellRounding - 1) / kCellRounding * kCellRounding;
  }
  config.dense = windows;
  config.options = options;
  Result<std::unique_ptr<Cache>> cache = Cache::create(config, best_kernels());
  if (!cache) return cache;
  for (int32_t il = 0; il < model.n_layers(); ++il) {
    const LayerGeometry& layer = model.layers[static_cast<size_t>(il)];
    if (layer.n_kv_heads == 0 || (layer.window > 0) != windows) continue;
    const auto set =
        cache.value()->set_geometry(il, {layer.n_kv_heads, layer.head_dim_k, layer.head_dim_v});
    if (!set) return Error{set.error()};
    cache.value()->set_query_heads(il, layer.n_heads);
  }
  if (cache.value()->n_layers() == 0) return std::unique_ptr<Cache>();
  return cache;
}

}  // namespace

Result<CapCost> cap_cost(const ModelInfo& model, const CacheOptions& options, int32_t n_streams,
                         int32_t n_ubatch, int32_t n_threads) {
  std::vector<std::unique_ptr<Cache>> owned;
  std::vector<Cache*> caches;
  for (const bool windows : {false, true}) {
    auto cache = empty_cache(model, options, n_streams, n_ubatch, windows);
    if (!cache) return Error{cache.error()};
    if (cache.value() == nullptr) continue;
    caches.push_back(cache.value().get());
    owned.push_back(std::move(cache.value()));
  }
  CapCost cost;
  if (caches.empty()) return cost;
  cost.least_mib = smallest_cap_mib(caches, n_ubatch, n_threads);
  if (cost.least_mib <= options.budget_mb) cost.tokens = tokens_under_cap(caches, n_threads);
  return cost;
}

Result<std::vector<Cost>> costs(const ModelInfo& model, const CacheOptions& options,
                                std::span<const int64_t> lengths, int64_t chunk) {
  const Result<Policy> policy = policy_of(options);
  if (!policy) return Error{policy.error()};
  const Result<FormatSpec> formats = parse_format(options.format);
  if (!formats) return Error{formats.error()};
  const BudgetRule* budget = policy.value().evicts() ? policy.value().budget.get() : nullptr;
  std::vector<Cost> result;
  for (const int64_t tokens : lengths) {
    result.push_back(cost_of(model, budget, formats.value(), options, tokens, chunk));
  }
  return result;
}

}  // namespace kvasir::app
