#include <limits>

#include "device/device_state.h"
#include "device/statistics.h"
#include "kvasir/kvasir.h"

namespace {

using kvasir::device::StreamCounts;

struct Sum {
  kvasir_stats stats{};
  double confidence = 0;
  int64_t n_confidence = 0;
  bool any = false;

  void add(const StreamCounts& s) {
    any = true;
    stats.rows_bytes += s.bytes.rows;
    stats.metadata_bytes += s.bytes.metadata;
    stats.live_tokens += s.live_tokens;
    stats.evicted_rows += s.evicted_rows;
    stats.steps += s.steps;
    confidence += s.confidence_sum;
    n_confidence += s.n_confidence;
  }

  int finish(kvasir_stats* out) {
    stats.live_bytes = stats.rows_bytes + stats.metadata_bytes + stats.workspace_bytes;
    stats.mean_confidence = n_confidence == 0 ? std::numeric_limits<double>::quiet_NaN()
                                              : confidence / static_cast<double>(n_confidence);
    *out = stats;
    return any ? 1 : 0;
  }
};

}  // namespace

extern "C" int kvasir_get_stats(kvasir_stats* stats) {
  Sum sum;
  for (const auto& [id, cache] : kvasir::device::statistics().snapshot()) {
    if (!cache.alive) continue;
    for (const StreamCounts& s : cache.streams) sum.add(s);
    sum.stats.workspace_bytes += cache.bytes.workspace;
    sum.stats.peak_bytes += cache.peak_bytes;
  }
  return sum.finish(stats);
}

extern "C" int kvasir_get_stream_stats(int32_t stream, kvasir_stats* stats) {
  Sum sum;
  for (const auto& [id, cache] : kvasir::device::statistics().snapshot()) {
    if (cache.alive && stream >= 0 && static_cast<size_t>(stream) < cache.streams.size()) {
      sum.add(cache.streams[static_cast<size_t>(stream)]);
    }
  }
  return sum.finish(stats);
}

extern "C" const char* kvasir_kernel_table() { return kvasir::device::current_kernels().name; }
