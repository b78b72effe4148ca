#include "eval/run/kv_session.h"

#include "device/device.h"

namespace kvasir::eval {
namespace {

void add_times(CacheTimes& sum, const CacheTimes& times) {
  sum.append += times.append;
  sum.attention += times.attention;
  sum.selection += times.selection;
  sum.metadata += times.metadata;
  sum.compaction += times.compaction;
  sum.ranking += times.ranking;
  sum.demotion += times.demotion;
}

}  // namespace

Result<KvSession> KvSession::open(std::shared_ptr<llama_model> model, const CacheOptions& options,
                                  const SessionParams& params) {
  auto set = device::set_options(options);
  if (!set) return Error{set.error()};
  device::CacheRange caches;
  caches.first = device::cache_mark();
  auto session = Session::open(std::move(model), params);
  if (!session) return Error{session.error()};
  caches.last = device::cache_mark();
  return KvSession(std::move(session.value()), caches);
}

KvCounts KvSession::counts() const {
  KvCounts sum;
  double confidence = 0;
  for (const auto& cache : device::counts_of(caches_)) {
    sum.bytes += cache.bytes.total();
    sum.bytes_peak += cache.peak_bytes;
    add_times(sum.times, cache.times);
    sum.confidence_ns += cache.confidence_ns;
    if (cache.dense) continue;
    for (const auto& stream : cache.streams) {
      sum.live_tokens += stream.live_tokens;
      sum.evicted +=
          cache.n_layers == 0 ? 0 : static_cast<double>(stream.evicted_rows) / cache.n_layers;
      confidence += stream.confidence_sum;
      sum.n_confidence += stream.n_confidence;
    }
  }
  if (sum.n_confidence > 0)
    sum.mean_confidence = confidence / static_cast<double>(sum.n_confidence);
  return sum;
}

std::vector<double> KvSession::held(int32_t n) const {
  const device::LiveCounts live = device::live_counts(caches_, 0, n);
  std::vector<double> share(static_cast<size_t>(n), 1.0);
  if (live.n_layers == 0) return share;
  for (size_t i = 0; i < share.size(); ++i) {
    share[i] = static_cast<double>(live.layers_of[i]) / live.n_layers;
  }
  return share;
}

}  // namespace kvasir::eval
