#include "device/inspect.h"

#include <algorithm>

#include "device/kv_buffer.h"
#include "kernels/half.h"

namespace kvasir::device {
namespace {

// Tokens of a layer by arrival, which ascend by position.
LayerTokens tokens_of(const LayerCache& rows, int32_t layer, RopeTable& rope) {
  const LayerGeometry& g = rows.rows().geometry();
  LayerTokens tokens{layer, g, {}};
  const size_t width = static_cast<size_t>(g.width_k()) + static_cast<size_t>(g.width_v());
  tokens.x.resize(width * static_cast<size_t>(rows.n_slots()));
  if (rows.n_slots() > 0) rope.cover(rows.positions().back());
  std::vector<uint16_t> half(width);
  float* to = tokens.x.data();
  for (int32_t slot = 0; slot < rows.n_slots(); ++slot, to += width) {
    rows.read_row(slot, true, half.data());
    rows.read_row(slot, false, half.data() + g.width_k());
    std::transform(half.begin(), half.end(), to, half_to_float);
    for (int32_t head = 0; head < g.n_kv_heads; ++head) {
      rope.rotate_back(rows.positions()[static_cast<size_t>(slot)],
                       to + ptrdiff_t{head} * g.head_dim_k);
    }
  }
  return tokens;
}

}  // namespace

int64_t cache_mark() { return KvBuffer::next_id(); }

std::vector<CacheCounts> counts_of(const CacheRange& range) {
  // A step without logits ends with the next one: what the caches hold is asked of them.
  for (KvBuffer* buffer : KvBuffer::made_between(range.first, range.last)) {
    if (const Cache* cache = buffer->cache_if_made()) statistics().refresh(buffer->id(), *cache);
  }
  return statistics().between(range.first, range.last);
}

LiveCounts live_counts(const CacheRange& range, int32_t stream, int32_t n_positions) {
  LiveCounts live;
  live.layers_of.resize(static_cast<size_t>(n_positions));
  for (KvBuffer* buffer : KvBuffer::made_between(range.first, range.last)) {
    const Cache* cache = buffer->cache_if_made();
    if (cache == nullptr || !cache->evicts()) continue;
    for (const int32_t layer : cache->layer_ids()) {
      ++live.n_layers;
      for (const int32_t position : cache->live_positions(stream, layer)) {
        if (position < n_positions) ++live.layers_of[static_cast<size_t>(position)];
      }
    }
  }
  return live;
}

void drop_positions(const CacheRange& range, int32_t stream, int32_t first, int32_t last) {
  for (KvBuffer* buffer : KvBuffer::made_between(range.first, range.last)) {
    Cache* cache = buffer->cache_if_made();
    if (cache != nullptr && cache->evicts()) cache->drop(stream, first, last);
  }
}

Result<void> for_layer_tokens(const CacheRange& range, int32_t stream,
                              const std::function<Result<void>(LayerTokens tokens)>& show) {
  for (KvBuffer* buffer : KvBuffer::made_between(range.first, range.last)) {
    const Cache* cache = buffer->cache_if_made();
    if (cache == nullptr || !cache->moves_rows()) continue;
    for (const int32_t layer : cache->layer_ids()) {
      const LayerCache* rows = cache->find(layer, stream);
      if (rows == nullptr) continue;
      const RopeSpec* spec = cache->rope_spec(layer);
      if (spec == nullptr) {
        return Error{"layer " + std::to_string(layer) +
                     ": it is not known how its keys are rotated; it takes --kv-format residual"};
      }
      RopeTable rope(*spec);
      Result<void> shown = show(tokens_of(*rows, layer, rope));
      if (!shown) return shown;
    }
  }
  return {};
}

}  // namespace kvasir::device
