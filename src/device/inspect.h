// What the caches of one context hold, for evaluations that drive contexts in this process.
//
// A context's caches are named by the marks taken before and after it was made. Not thread-safe: to
// be called by the thread that drives the context, between two decodes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "device/statistics.h"
#include "format/f16_page.h"

namespace kvasir::device {

/// A number above those of all KV buffers made so far.
int64_t cache_mark();

/// The KV buffers made between two marks.
struct CacheRange {
  int64_t first = 0;  ///< cache_mark() before the context was made
  int64_t last = 0;   ///< and after it
};

/// Counts of the caches of a range that had a step, sliding-window ones too.
std::vector<CacheCounts> counts_of(const CacheRange& range);

/// How many times each position is live, over the layers that may lose tokens.
struct LiveCounts {
  int32_t n_layers = 0;
  std::vector<int32_t> layers_of;  ///< [n_positions] layers that hold the position
};

/// Counts for positions [0, n_positions) of one stream. Caches that drop nothing are not counted;
/// n_layers is 0 if there is no other.
LiveCounts live_counts(const CacheRange& range, int32_t stream, int32_t n_positions);

/// Drops the rows of positions [first, last) of one stream from the caches that may lose tokens, as
/// if they had been evicted. For experiments.
void drop_positions(const CacheRange& range, int32_t stream, int32_t first, int32_t last);

/// The tokens of one stream in one layer: of each, K of all heads without their rotation, then V of
/// all heads, as f32, by position.
struct LayerTokens {
  int32_t layer = 0;
  LayerGeometry geometry;
  std::vector<float> x;  ///< [tokens, width_k + width_v]
};

/// Shows each layer whose rows may move, by number; sliding-window layers are left out. Fails with
/// one line where a cache does not know how keys were rotated: --kv-format residual makes it ask.
/// The function may end it with a failure of its own.
Result<void> for_layer_tokens(const CacheRange& range, int32_t stream,
                              const std::function<Result<void>(LayerTokens tokens)>& show);

}  // namespace kvasir::device
