#include "eval/premise/premise.h"

#include <cassert>

#include "eval/statistics.h"
#include "kernels/kernels.h"
#include "policy/confidence.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kCellStep = 256;  // llama.cpp cuts a context into streams of whole steps

Confidence confidence_at(std::span<const float> logits, double temperature,
                         std::vector<float>& scratch) {
  if (temperature == 0) {
    Confidence sure;
    sure.c = 1;
    sure.p1 = 1;
    sure.valid = true;
    return sure;
  }
  scratch.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    scratch[i] = static_cast<float>(static_cast<double>(logits[i]) / temperature);
  }
  const auto n = static_cast<int32_t>(logits.size());
  return confidence_of(best_kernels().logit_sums(scratch.data(), n), n);
}

// The same text in two streams: one that sees everything, one for a single step at a time that
// does not.
class Streams {
 public:
  Streams(KvSession& kv, const PremisePlan& plan) : kv_(kv), plan_(plan) {}

  // Gives the first `n` tokens to the first stream, as a prompt.
  Result<void> fill(int32_t n) {
    return kv_.session().fill(tokens().first(static_cast<size_t>(n)), 0);
  }

  // Gives the token at `position` to the first stream.
  Result<void> step(int32_t position) {
    return kv_.session().decode(one(position), position, Outputs::kLast, 0);
  }

  // The same, then to a copy of what stood before it, less the hidden tokens. llama.cpp copies
  // streams at the next decode, which is the first stream's.
  Result<PremisePoint> measure(int32_t position) {
    llama_memory_t memory = kv_.session().memory();
    llama_memory_seq_cp(memory, 0, 1, -1, -1);
    auto done = step(position);
    if (!done) return Error{done.error()};
    const auto logits = kv_.session().logits();
    whole_.assign(logits.begin(), logits.end());
    device::drop_positions(kv_.caches(), 1, position - plan_.hidden, position);
    done = kv_.session().decode(one(position), position, Outputs::kLast, 1);
    if (!done) return Error{done.error()};
    PremisePoint point = compare(kv_.session().logits());
    point.position = position;
    llama_memory_seq_rm(memory, 1, -1, -1);
    return point;
  }

 private:
  std::span<const llama_token> tokens() const { return plan_.tokens; }
  std::span<const llama_token> one(int32_t position) const {
    return tokens().subspan(static_cast<size_t>(position), 1);
  }

  PremisePoint compare(std::span<const float> hidden) {
    PremisePoint point;
    point.kl = kl_divergence(whole_, summarize(whole_), hidden, summarize(hidden));
    const Confidence seen = confidence_at(whole_, 1, scratch_);
    point.c = seen.c;
    point.entropy = seen.entropy;
    point.p1 = seen.p1;
    point.margin = seen.margin;
    for (const double t : plan_.temperatures) {
      point.c_at.push_back(confidence_at(whole_, t, scratch_).c);
    }
    return point;
  }

  KvSession& kv_;
  const PremisePlan& plan_;
  std::vector<float> whole_, scratch_;
};

}  // namespace

int32_t PremisePlan::n_points() const {
  const int32_t steps = static_cast<int32_t>(tokens.size()) - prefix;
  return (steps + every - 1) / every;
}

Result<void> run_premise(std::shared_ptr<llama_model> model, const SessionParams& params,
                         const PremisePlan& plan, int32_t n_done, const OnPoint& on_point) {
  assert(plan.every >= 1 && plan.hidden >= 0 && plan.prefix >= plan.hidden);
  assert(n_done >= 0 && n_done < plan.n_points());
  // A policy that could drop tokens and has room for all: rows lie by arrival, so some can be
  // hidden.
  CacheOptions options;
  options.policy = "window";
  options.params.budget = static_cast<int32_t>(plan.tokens.size()) + 1;
  SessionParams own = params;
  own.n_ctx = (static_cast<int32_t>(plan.tokens.size()) + kCellStep) / kCellStep * kCellStep;
  own.n_sequences = 2;
  auto kv = KvSession::open(std::move(model), options, own);
  if (!kv) return Error{kv.error()};
  Streams streams(kv.value(), plan);
  const int32_t first = plan.position(n_done);
  auto done = streams.fill(first);
  for (int32_t i = first; done && i < static_cast<int32_t>(plan.tokens.size()); ++i) {
    if ((i - plan.prefix) % plan.every != 0) {
      done = streams.step(i);
      continue;
    }
    auto point = streams.measure(i);
    if (!point) return Error{point.error()};
    done = on_point(point.value());
  }
  return done;
}

}  // namespace kvasir::eval
