#include "eval/measure/synthetic.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>

#include "cache/cache.h"
#include "eval/measure/format_text.h"
#include "eval/measure/synthetic_rows.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kChunk = 512;         // rows of a layer that arrive together while it is filled
constexpr double kStepUnits = 1.0 / 8;  // of a row that a step reads; a row that is filled is 1
constexpr double kMs = 1e-6;            // of a nanosecond

size_t z(int64_t n) { return static_cast<size_t>(n); }

// As most models rotate; read with --kv-positions cache only.
RopeSpec usual_rope(int32_t head_dim) {
  RopeSpec rope;
  for (int32_t i = 0; i < head_dim / 2; ++i) {
    rope.frequencies.push_back(std::pow(10000.0, -2.0 * i / head_dim));
  }
  return rope;
}

// One cache of one stream that is filled and then decodes.
class SyntheticRun {
 public:
  SyntheticRun(const SyntheticPlan& plan, std::unique_ptr<Cache> cache, int32_t n_cells,
               ParallelFor& parallel)
      : shape_(plan.shape),
        cache_(std::move(cache)),
        parallel_(parallel),
        values_(plan.seed),
        rows_(z(int64_t{2} * shape_.n_layers * kChunk * width())),
        queries_(z(int64_t{shape_.n_layers} * q_width())),
        out_(z(q_width())),
        mask_(z(n_cells), kF16MinusInf) {}

  static Result<std::unique_ptr<SyntheticRun>> open(const SyntheticPlan& plan, int32_t depth,
                                                    const KvKernels& kernels,
                                                    ParallelFor& parallel);
  /// `n` rows arrive in each layer; nothing attends.
  Result<void> fill(int32_t n);
  /// One decode step.
  Result<StepTimes> step();

  const Cache& cache() const { return *cache_; }
  double read_bytes() const { return read_bytes_; }    ///< of the last step
  double live_tokens() const { return live_tokens_; }  ///< that the last step read, per layer

 private:
  int32_t width() const { return shape_.n_kv_heads * shape_.head_dim; }
  int32_t q_width() const { return shape_.n_heads * shape_.head_dim; }
  void make_rows(int32_t n);
  Result<void> append(int32_t layer, int32_t n);
  Result<void> attend(int32_t layer);
  void end_step(bool decoded);

  SyntheticShape shape_;
  std::unique_ptr<Cache> cache_;
  ParallelFor& parallel_;
  NormalValues values_;
  int32_t n_seen_ = 0;
  uint64_t n_blocks_ = 0;  // of random values so far
  std::vector<int32_t> tokens_;
  std::vector<float> rows_;     // [n_layers, 2, kChunk, width]
  std::vector<float> queries_;  // [n_layers, q_width]
  std::vector<float> out_;
  std::vector<uint16_t> mask_;  // [n_cells] of the newest token
  double read_bytes_ = 0;
  double live_tokens_ = 0;
};

Result<std::unique_ptr<SyntheticRun>> SyntheticRun::open(const SyntheticPlan& plan, int32_t depth,
                                                         const KvKernels& kernels,
                                                         ParallelFor& parallel) {
  CacheConfig config;
  config.n_cells = depth + plan.steps + 1;
  config.options = plan.options;
  auto cache = Cache::create(config, kernels);
  if (!cache) return Error{cache.error()};
  const SyntheticShape& shape = plan.shape;
  const LayerGeometry geometry{shape.n_kv_heads, shape.head_dim, shape.head_dim};
  for (int32_t layer = 0; layer < shape.n_layers; ++layer) {
    auto set = cache.value()->set_geometry(layer, geometry);
    if (!set) return Error{set.error()};
    cache.value()->set_rope(layer, usual_rope(shape.head_dim));
  }
  return std::make_unique<SyntheticRun>(plan, std::move(cache.value()), config.n_cells, parallel);
}

// Tokens [n_seen, n_seen + n) and their rows in every layer.
void SyntheticRun::make_rows(int32_t n) {
  tokens_.resize(z(n));
  std::iota(tokens_.begin(), tokens_.end(), n_seen_);
  const int64_t n_items = int64_t{2} * shape_.n_layers;
  parallel_.run(n_items, [&](int64_t item, int32_t /*worker*/) {
    const auto rows = std::span(rows_).subspan(z(item * kChunk * width()), z(int64_t{n} * width()));
    values_.fill(n_blocks_ + static_cast<uint64_t>(item), rows);
  });
  n_blocks_ += static_cast<uint64_t>(n_items);
}

Result<void> SyntheticRun::append(int32_t layer, int32_t n) {
  const TokenSpan span{tokens_, tokens_};
  const float* k = rows_.data() + ptrdiff_t{2} * layer * kChunk * width();
  const float* v = k + ptrdiff_t{kChunk} * width();
  auto done = cache_->append_k(layer, 0, span, {k, width(), n});
  return done ? cache_->append_v(layer, 0, span, {v, width(), n}) : done;
}

Result<void> SyntheticRun::attend(int32_t layer) {
  AttendArgs args;
  args.layer = layer;
  args.n_queries = 1;
  args.n_heads = shape_.n_heads;
  args.q = queries_.data() + ptrdiff_t{layer} * q_width();
  args.out = out_.data();
  args.q_query = args.out_query = q_width();
  args.q_head = args.out_head = shape_.head_dim;
  args.mask = mask_.data();
  args.n_cells = static_cast<int32_t>(mask_.size());
  args.mask_query = args.n_cells;
  args.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
  args.positions = tokens_;
  args.epoch = n_seen_;
  return cache_->attend(args, parallel_);
}

void SyntheticRun::end_step(bool decoded) {
  StepState state;
  state.decoded = decoded;
  StepRecord record;
  cache_->end_step(0, state, parallel_, record);
}

Result<void> SyntheticRun::fill(int32_t n) {
  make_rows(n);
  for (int32_t layer = 0; layer < shape_.n_layers; ++layer) {
    auto done = append(layer, n);
    if (!done) return done;
  }
  std::fill_n(mask_.begin() + n_seen_, n, uint16_t{0});
  n_seen_ += n;
  end_step(false);
  return {};
}

Result<StepTimes> SyntheticRun::step() {
  using Clock = std::chrono::steady_clock;
  make_rows(1);
  values_.fill(n_blocks_++, queries_);
  mask_[z(n_seen_++)] = 0;
  const CacheTimes before = cache_->times();
  const int64_t rows_before = cache_->rows_read(), live_before = cache_->rows_live();
  const auto start = Clock::now();
  for (int32_t layer = 0; layer < shape_.n_layers; ++layer) {
    auto done = append(layer, 1);
    if (done) done = attend(layer);
    if (!done) return Error{done.error()};
  }
  const auto attended = Clock::now();
  const auto live = static_cast<double>(cache_->rows_live() - live_before);
  const double share =
      live > 0 ? static_cast<double>(cache_->rows_read() - rows_before) / live : 1.0;
  read_bytes_ = share * static_cast<double>(cache_->bytes(0).rows);
  live_tokens_ = share * cache_->live_tokens(0);
  const auto ends = Clock::now();
  end_step(true);
  const std::chrono::duration<double, std::milli> taken =
      (attended - start) + (Clock::now() - ends);
  const CacheTimes& after = cache_->times();
  const auto ms = [&](int64_t CacheTimes::*part) {
    return kMs * static_cast<double>(after.*part - before.*part);
  };
  StepTimes times;
  times.append = ms(&CacheTimes::append);
  times.selection = ms(&CacheTimes::selection);
  times.attention = ms(&CacheTimes::attention) - times.selection;
  times.ranking = ms(&CacheTimes::metadata) + ms(&CacheTimes::ranking);
  times.demotion = ms(&CacheTimes::demotion);
  times.eviction = ms(&CacheTimes::compaction) - ms(&CacheTimes::ranking) - times.demotion;
  times.step = taken.count();
  return times;
}

Result<SyntheticSamples> run_depth(const SyntheticPlan& plan, int32_t depth,
                                   const KvKernels& kernels, ParallelFor& parallel,
                                   const OnProgress& progress) {
  const std::string filling = format_text("filling to d%d", depth);
  const std::string decoding = format_text("decode at d%d", depth);
  auto opened = SyntheticRun::open(plan, depth, kernels, parallel);
  if (!opened) return Error{opened.error()};
  SyntheticRun& run = *opened.value();
  for (int32_t at = 0; at < depth; at += kChunk) {
    const int32_t n = std::min(kChunk, depth - at);
    auto done = run.fill(n);
    if (!done) return Error{done.error()};
    progress(n, filling);
  }
  SyntheticSamples samples;
  samples.depth = depth;
  for (int32_t i = -1; i < plan.steps; ++i) {
    progress(0, decoding);
    auto times = run.step();
    if (!times) return Error{times.error()};
    progress(kStepUnits * depth, decoding);
    if (i < 0) {
      samples.first = times.value();
      continue;
    }
    samples.steps.push_back(times.value());
    samples.read_bytes += run.read_bytes() / plan.steps;
    samples.live_tokens += run.live_tokens() / plan.steps;
  }
  samples.kv_bytes = run.cache().bytes().total();
  samples.kv_bytes_peak = std::max(run.cache().peak_bytes(), samples.kv_bytes);
  return samples;
}

}  // namespace

Result<void> check_synthetic(const SyntheticPlan& plan, int64_t free_bytes) {
  const SyntheticShape& shape = plan.shape;
  if (shape.n_heads % shape.n_kv_heads != 0) {
    return Error{"--synthetic-heads " + std::to_string(shape.n_heads) +
                 ": allowed are multiples of --synthetic-kv-heads " +
                 std::to_string(shape.n_kv_heads)};
  }
  const CacheOptions& options = plan.options;
  const auto needs_model = [](const std::string& flag) {
    return Error{flag + " needs a model: leave it out with --synthetic"};
  };
  if (options.budget_mb > 0) {
    return needs_model("--kv-budget-mb " + std::to_string(options.budget_mb));
  }
  if (!options.trace_path.empty()) return needs_model("--kv-trace " + options.trace_path);
  if (options.stats) return needs_model("--kv-stats");
  const int64_t needed = (int64_t{plan.depths.back()} + plan.steps + 1) * shape.token_bytes();
  if (free_bytes > 0 && needed > free_bytes) {
    return Error{"--n-depth " + std::to_string(plan.depths.back()) + ": its f16 rows need " +
                 std::to_string(needed >> 20) + " MiB; " + std::to_string(free_bytes >> 20) +
                 " MiB of memory are free"};
  }
  return {};
}

double synthetic_units(const SyntheticPlan& plan) {
  double total = 0;
  for (const int32_t depth : plan.depths) total += depth * (1 + kStepUnits * (plan.steps + 1));
  return std::max(total, 1.0);
}

Result<std::vector<SyntheticSamples>> run_synthetic(const SyntheticPlan& plan,
                                                    const KvKernels& kernels, ParallelFor& parallel,
                                                    const OnProgress& progress) {
  std::vector<SyntheticSamples> all;
  for (const int32_t depth : plan.depths) {
    auto samples = run_depth(plan, depth, kernels, parallel, progress);
    if (!samples) return Error{samples.error()};
    all.push_back(std::move(samples.value()));
  }
  return all;
}

}  // namespace kvasir::eval
