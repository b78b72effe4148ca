// Counts of all caches of the process: what --kv-stats prints and include/kvasir/kvasir.h offers.
//
// Entries outlive their caches, so that figures can be printed at exit. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/step_record.h"

namespace kvasir::device {

/// One stream of one cache.
struct StreamCounts {
  int64_t steps = 0;
  int64_t n_confidence = 0;  ///< steps with valid logits
  double confidence_sum = 0;
  double live_tokens = 0;    ///< mean over the layers, now
  int64_t evicted_rows = 0;  ///< token rows dropped, summed over the layers
  CacheBytes bytes;
};

/// One cache: one KV buffer of one context.
struct CacheCounts {
  std::string policy;
  bool alive = true;   ///< false: freed; kept for the report
  bool dense = false;  ///< a sliding-window cache beside the main one
  int32_t n_layers = 0;
  int64_t peak_bytes = 0;
  CacheBytes bytes;
  CacheTimes times;
  int64_t rows_read = 0, rows_live = 0;  ///< of decode steps with --kv-select; else 0
  /// Of those steps, chosen rows that are kept once restored, and those of them that were kept.
  int64_t rows_restored = 0, rows_found = 0;
  int64_t confidence_ns = 0;  ///< time spent on logits rows; of the main cache only
  std::vector<StreamCounts> streams;
};

class Statistics {
 public:
  /// Takes the state of a cache after a step of one of its streams.
  void note(int64_t cache_id, const Cache& cache, const StepRecord& record);
  /// Starts the counts of a cache anew (the context was cleared: a warm-up ends so).
  void reset(int64_t cache_id);
  /// Takes the state of a cache without counting a step.
  void refresh(int64_t cache_id, const Cache& cache);
  /// Adds time spent on the confidence of steps of a cache.
  void add_confidence_time(int64_t cache_id, int64_t nanoseconds);
  /// A cache is gone; its last counts stay for the report, its bytes no longer count as live.
  void forget(int64_t cache_id);

  std::map<int64_t, CacheCounts> snapshot() const;
  /// Of the caches with first <= id < last alone, by id.
  std::vector<CacheCounts> between(int64_t first, int64_t last) const;

  /// The report: lines for people, then one line `kvasir-stats: {json}`. Empty if nothing ran.
  std::string report() const;

 private:
  static void take(CacheCounts& counts, const Cache& cache);

  mutable std::mutex mutex_;
  std::map<int64_t, CacheCounts> caches_;
};

Statistics& statistics();

}  // namespace kvasir::device
