#include "device/inspect.h"

#include "device/kv_buffer.h"

namespace kvasir::device {

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

}  // namespace kvasir::device
