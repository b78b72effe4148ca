#include "eval/measure/capacity.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "eval/measure/paired.h"
#include "eval/run/kv_session.h"
#include "eval/statistics.h"
#include "eval/text.h"
#include "kvasir/kvasir.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kRounds = 4;   // that the steps are timed at most, each with fewer sequences
constexpr int32_t kSpare = 64;   // positions for tokens that only ask what is held
constexpr int32_t kCells = 256;  // llama.cpp rounds to these, and warns

// The sequences of one session: the first is read, the others are copies of it.
class Sequences {
 public:
  static Result<std::unique_ptr<Sequences>> open(const std::shared_ptr<llama_model>& model,
                                                 const CacheOptions& options,
                                                 const CapacityPlan& plan);
  Sequences(KvSession session, const CapacityPlan& plan)
      : session_(std::move(session)),
        tokens_(random_tokens(plan.depth + 1, session_.session().n_vocab(), plan.seed)) {}

  /// Reads the first sequence and decodes two tokens of it.
  Result<void> read_first(int32_t depth);
  /// Copies the first one until there are n, and decodes a token of each.
  Result<void> grow_to(int32_t n);
  /// A token of each of the first n.
  Result<void> step(int32_t n) {
    return generate(session_.session(), std::span(tokens_).last(1), n);
  }

  int32_t size() const { return n_; }
  KvCounts counts() const { return session_.counts(); }
  /// What each holds by itself.
  std::vector<int64_t> bytes() const;

 private:
  KvSession session_;
  std::vector<llama_token> tokens_;
  int32_t n_ = 0;
};

Result<std::unique_ptr<Sequences>> Sequences::open(const std::shared_ptr<llama_model>& model,
                                                   const CacheOptions& options,
                                                   const CapacityPlan& plan) {
  SessionParams params;
  const int32_t n = plan.depth + kSpare + plan.most_sequences + kRounds * plan.steps;
  params.n_ctx = (n + kCells - 1) / kCells * kCells;
  params.n_ubatch = plan.n_ubatch;
  params.n_threads = plan.n_threads;
  params.n_sequences = plan.most_sequences;
  auto session = KvSession::open(model, options, params);
  if (!session) return Error{session.error()};
  return std::make_unique<Sequences>(std::move(session.value()), plan);
}

Result<void> Sequences::read_first(int32_t depth) {
  auto filled = session_.session().fill(std::span(tokens_).first(static_cast<size_t>(depth)), 0);
  if (!filled) return filled;
  n_ = 1;
  // What leaves at the end of a step may do so only when the next one begins.
  auto first = step(1);
  return first ? step(1) : first;
}

Result<void> Sequences::grow_to(int32_t n) {
  for (; n_ < n; ++n_) llama_memory_seq_cp(session_.session().memory(), 0, n_, -1, -1);
  return step(n_);
}

std::vector<int64_t> Sequences::bytes() const {
  std::vector<int64_t> bytes;
  for (int32_t s = 0; s < n_; ++s) {
    kvasir_stats stats{};
    bytes.push_back(kvasir_get_stream_stats(s, &stats) == 1 ? stats.live_bytes : 0);
  }
  return bytes;
}

// Adds sequences until one more than fit is there, or as many as may be.
Result<int32_t> find_most(Sequences& sequences, const CapacityPlan& plan, int64_t arrival) {
  for (;;) {
    const std::vector<int64_t> bytes = sequences.bytes();
    const int64_t total = sequences.counts().bytes;
    const int32_t n = streams_that_fit(total, bytes, arrival, plan.budget_bytes);
    if (n < sequences.size() || n == plan.most_sequences) return n;
    const int64_t room = plan.budget_bytes - arrival - total;
    const int64_t more = room / std::max<int64_t>(1, bytes.front()) + 1;
    auto grown = sequences.grow_to(
        static_cast<int32_t>(std::min<int64_t>(plan.most_sequences, sequences.size() + more)));
    if (!grown) return Error{grown.error()};
  }
}

// Seconds of each step of the first n, after an untimed one.
Result<std::vector<double>> time_steps(Sequences& sequences, int32_t n, int32_t steps) {
  std::vector<double> seconds;
  for (int32_t i = -1; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    auto done = sequences.step(n);
    if (!done) return Error{done.error()};
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (i >= 0) seconds.push_back(taken.count());
  }
  return seconds;
}

}  // namespace

double CapacitySample::tokens_per_second() const {
  return step_seconds.empty() ? 0 : n_sequences / median(step_seconds);
}

int32_t streams_that_fit(int64_t total, std::span<const int64_t> streams, int64_t spare,
                         int64_t budget) {
  auto n = static_cast<int32_t>(streams.size());
  while (n > 0 && total + spare > budget) total -= streams[static_cast<size_t>(--n)];
  return n;
}

double capacity_units(const CapacityPlan& plan) { return plan.depth + 8.0 * plan.steps; }

Result<CapacitySample> measure_capacity(const std::shared_ptr<llama_model>& model,
                                        const Setting& setting, const CapacityPlan& plan,
                                        const OnProgress& progress) {
  CapacitySample sample;
  sample.name = setting.name;
  sample.flags = setting.flags();
  progress(0, setting.name + ": reading");
  auto opened = Sequences::open(model, setting.options, plan);
  if (!opened) return Error{opened.error()};
  Sequences& sequences = *opened.value();
  auto read = sequences.read_first(plan.depth);
  if (!read) return Error{read.error()};
  progress(plan.depth, setting.name + ": decoding");
  const KvCounts first = sequences.counts();
  sample.bytes = first.bytes;
  sample.arrival_bytes = first.bytes_peak - first.bytes;
  auto most = find_most(sequences, plan, sample.arrival_bytes);
  if (!most) return Error{most.error()};
  // Sequences grow while they are timed, after which fewer may fit.
  int32_t n = most.value();
  for (int32_t round = 0; n > 0 && round + 1 < kRounds; ++round) {
    auto seconds = time_steps(sequences, n, plan.steps);
    if (!seconds) return Error{seconds.error()};
    sample.n_sequences = n;
    sample.step_seconds = std::move(seconds.value());
    const std::vector<int64_t> bytes = sequences.bytes();
    sample.bytes =
        sequences.counts().bytes - std::accumulate(bytes.begin() + n, bytes.end(), int64_t{0});
    n = streams_that_fit(sequences.counts().bytes, bytes, sample.arrival_bytes, plan.budget_bytes);
    if (n >= sample.n_sequences) break;
  }
  sample.tried_all = sample.n_sequences == plan.most_sequences;
  kvasir_stats stats{};
  if (kvasir_get_stream_stats(0, &stats) == 1) sample.live_tokens = stats.live_tokens;
  progress(8.0 * plan.steps, setting.name);
  return sample;
}

}  // namespace kvasir::eval
