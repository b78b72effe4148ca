// A session whose cache is Kvasir's, under one setting, with what that cache holds and costs.
//
// Several may live side by side on one model. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "cache/options.h"
#include "device/inspect.h"
#include "eval/session.h"

namespace kvasir::eval {

/// All caches of one session together; sliding-window layers count in bytes, not in tokens.
struct KvCounts {
  int64_t bytes = 0;       ///< rows, metadata and workspace now
  int64_t bytes_peak = 0;  ///< their largest sum of each cache so far
  double live_tokens = 0;  ///< per layer that may lose tokens, mean
  double evicted = 0;      ///< tokens per such layer, so far
  double mean_confidence = 0;
  int64_t n_confidence = 0;  ///< steps that it is the mean of
  CacheTimes times;
  int64_t confidence_ns = 0;
};

class KvSession {
 public:
  /// A context on `model`, which was loaded onto the device, with its cache under `options`.
  /// Fails with one line.
  static Result<KvSession> open(std::shared_ptr<llama_model> model, const CacheOptions& options,
                                const SessionParams& params);

  Session& session() { return session_; }
  KvCounts counts() const;
  /// The caches of this session alone.
  const device::CacheRange& caches() const { return caches_; }
  /// Share of the layers that hold each of the positions [0, n); 1 where nothing can be evicted.
  std::vector<double> held(int32_t n) const;

 private:
  KvSession(Session session, device::CacheRange caches)
      : session_(std::move(session)), caches_(caches) {}

  Session session_;
  device::CacheRange caches_;
};

}  // namespace kvasir::eval
