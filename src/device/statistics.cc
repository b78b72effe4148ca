#include "device/statistics.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace kvasir::device {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

nlohmann::ordered_json json_of(const CacheBytes& bytes) {
  return {{"rows", bytes.rows}, {"metadata", bytes.metadata}, {"workspace", bytes.workspace}};
}

// Sums of the streams of one cache.
struct Totals {
  int64_t steps = 0, n_confidence = 0, evicted = 0;
  double confidence = 0, kept = 0;
};

Totals totals_of(const CacheCounts& cache) {
  Totals t;
  for (const StreamCounts& s : cache.streams) {
    t.steps += s.steps;
    t.n_confidence += s.n_confidence;
    t.confidence += s.confidence_sum;
    t.kept += s.live_tokens;
    t.evicted += s.evicted_rows;
  }
  return t;
}

// Of the live rows of decode steps, how many were read; layers added up.
double read_share(const CacheCounts& cache) {
  return static_cast<double>(cache.rows_read) / static_cast<double>(cache.rows_live);
}

// Of the chosen rows whose restored form is kept, how many were there from former steps.
double found_share(const CacheCounts& cache) {
  return static_cast<double>(cache.rows_found) / static_cast<double>(cache.rows_restored);
}

nlohmann::ordered_json mean_or_null(double sum, int64_t n) {
  if (n == 0) return nullptr;
  return sum / static_cast<double>(n);
}

nlohmann::ordered_json json_of(const CacheCounts& cache) {
  const Totals t = totals_of(cache);
  nlohmann::ordered_json streams = nlohmann::ordered_json::array();
  for (const StreamCounts& s : cache.streams) {
    streams.push_back({{"steps", s.steps},
                       {"kept", s.live_tokens},
                       {"evicted", s.evicted_rows},
                       {"mean_c", mean_or_null(s.confidence_sum, s.n_confidence)},
                       {"bytes", s.bytes.total()}});
  }
  nlohmann::ordered_json json = {
      {"policy", cache.policy},
      {"peak_bytes", cache.peak_bytes},
      {"live_bytes", cache.bytes.total()},
      {"bytes", json_of(cache.bytes)},
      {"layers", cache.n_layers},
      {"kept", t.kept},
      {"evicted", t.evicted},
      {"evicted_tokens_mean",
       cache.n_layers == 0 ? 0.0 : static_cast<double>(t.evicted) / cache.n_layers},
      {"steps", t.steps},
      {"mean_c", mean_or_null(t.confidence, t.n_confidence)},
      {"streams", streams}};
  if (cache.rows_live > 0) json["read_share"] = read_share(cache);
  if (cache.rows_restored > 0) json["found_share"] = found_share(cache);
  return json;
}

}  // namespace

Statistics& statistics() {
  static auto* instance = new Statistics();  // outlives every cache, those freed at exit too
  return *instance;
}

// Everything but the steps.
void Statistics::take(CacheCounts& counts, const Cache& cache) {
  counts.policy = cache.policy().name;
  counts.dense = cache.config().dense;
  counts.n_layers = static_cast<int32_t>(cache.n_layers());
  counts.bytes = cache.bytes();
  counts.peak_bytes = std::max(cache.peak_bytes(), counts.bytes.total());
  counts.times = cache.times();
  counts.rows_read = cache.rows_read();
  counts.rows_live = cache.rows_live();
  counts.rows_restored = cache.rows_restored();
  counts.rows_found = cache.rows_found();
  counts.streams.resize(z(cache.config().n_streams));
  for (int32_t s = 0; s < cache.config().n_streams; ++s) {
    counts.streams[z(s)].live_tokens = cache.live_tokens(s);
    counts.streams[z(s)].evicted_rows = cache.evicted_rows(s);
    counts.streams[z(s)].bytes = cache.bytes(s);
  }
}

void Statistics::note(int64_t cache_id, const Cache& cache, const StepRecord& record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CacheCounts& counts = caches_[cache_id];
  take(counts, cache);
  StreamCounts& stream = counts.streams[z(record.stream)];
  ++stream.steps;
  if (record.has_confidence && record.confidence.valid) {
    ++stream.n_confidence;
    stream.confidence_sum += record.confidence.c;
  }
}

void Statistics::refresh(int64_t cache_id, const Cache& cache) {
  const std::lock_guard<std::mutex> lock(mutex_);
  take(caches_[cache_id], cache);
}

void Statistics::add_confidence_time(int64_t cache_id, int64_t nanoseconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  caches_[cache_id].confidence_ns += nanoseconds;
}

void Statistics::reset(int64_t cache_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  caches_.erase(cache_id);
}

void Statistics::forget(int64_t cache_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = caches_.find(cache_id);
  if (it != caches_.end()) it->second.alive = false;
}

std::map<int64_t, CacheCounts> Statistics::snapshot() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return caches_;
}

std::vector<CacheCounts> Statistics::between(int64_t first, int64_t last) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<CacheCounts> counts;
  const auto end = caches_.lower_bound(last);
  for (auto it = caches_.lower_bound(first); it != end; ++it) counts.push_back(it->second);
  return counts;
}

std::string Statistics::report() const {
  const std::map<int64_t, CacheCounts> caches = snapshot();
  std::string text;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const CacheCounts* main = nullptr;
  int64_t most_steps = 0;
  for (const auto& [id, cache] : caches) {
    const Totals t = totals_of(cache);
    char line[256];
    std::snprintf(
        line, sizeof(line),
        "kvasir: cache %lld (%s%s): peak %.2f MiB, now %.2f MiB (rows %.2f, metadata %.2f, "
        "workspace %.2f)\n",
        static_cast<long long>(id), cache.policy.c_str(), cache.dense ? ", sliding window" : "",
        mib(cache.peak_bytes), mib(cache.bytes.total()), mib(cache.bytes.rows),
        mib(cache.bytes.metadata), mib(cache.bytes.workspace));
    text += line;
    std::snprintf(line, sizeof(line),
                  "kvasir:   %lld steps, %.1f tokens kept per layer, %.1f evicted",
                  static_cast<long long>(t.steps), t.kept,
                  cache.n_layers == 0 ? 0.0 : static_cast<double>(t.evicted) / cache.n_layers);
    text += line;
    if (t.n_confidence > 0) {
      std::snprintf(line, sizeof(line), ", mean confidence %.3f",
                    t.confidence / static_cast<double>(t.n_confidence));
      text += line;
    }
    if (cache.rows_live > 0) {
      std::snprintf(line, sizeof(line), ", %.1f %% of the rows read", 100 * read_share(cache));
      text += line;
    }
    if (cache.rows_restored > 0) {
      std::snprintf(line, sizeof(line), ", %.1f %% of the chosen rows found restored",
                    100 * found_share(cache));
      text += line;
    }
    text += "\n";
    all.push_back(json_of(cache));
    if (!cache.dense && (main == nullptr || t.steps > most_steps)) {
      main = &cache;
      most_steps = t.steps;
    }
  }
  if (main == nullptr) return text;
  nlohmann::ordered_json json = json_of(*main);
  json["caches"] = all;
  return text + "kvasir-stats: " + json.dump() + "\n";
}

}  // namespace kvasir::device
