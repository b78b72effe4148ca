#include "eval/fidelity/fidelity.h"

#include <cassert>
#include <chrono>

#include "device/device.h"
#include "kernels/kernels.h"
#include "policy/confidence.h"

namespace kvasir::eval {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(int64_t before, int64_t after) {
  return static_cast<double>(after - before) / 1e6;
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Calls visit(row, logits) for each distribution to compare; `step(row)` just before its decode.
template <typename Before, typename Visit>
Result<void> stream(Session& session, const FidelityPlan& plan, Before before, Visit visit) {
  assert(plan.prefix >= 1 && plan.n_rows() >= 1);
  const std::span<const llama_token> tokens(plan.tokens);
  auto filled = session.fill(tokens.first(static_cast<size_t>(plan.prefix) - 1), 0);
  if (!filled) return filled;
  for (int32_t row = 0; row < plan.n_rows(); ++row) {
    const int32_t position = plan.prefix - 1 + row;
    before(row);
    auto done =
        session.decode(tokens.subspan(static_cast<size_t>(position), 1), position, Outputs::kLast);
    if (!done) return done;
    visit(row, session.logits());
  }
  return {};
}

void split_time(const KvCounts& before, const KvCounts& after, FidelityStep& step) {
  step.attention_ms = ms_between(before.times.attention, after.times.attention);
  step.append_ms = ms_between(before.times.append, after.times.append);
  step.metadata_ms = ms_between(before.times.metadata, after.times.metadata);
  step.compaction_ms = ms_between(before.times.compaction, after.times.compaction);
  step.confidence_ms = ms_between(before.confidence_ns, after.confidence_ns);
}

}  // namespace

Result<WholeRows> collect_rows(Session& session, const FidelityPlan& plan, const OnRow& on_row,
                               const OnStep& on_step, std::vector<double>* step_ms) {
  WholeRows rows(session.n_vocab());
  Clock::time_point start;
  auto done = stream(
      session, plan, [&](int32_t) { start = Clock::now(); },
      [&](int32_t row, std::span<const float> logits) {
        if (step_ms != nullptr) step_ms->push_back(ms_since(start));
        rows.add(logits, plan.tokens[static_cast<size_t>(plan.prefix) + static_cast<size_t>(row)]);
        if (on_row) on_row(logits);
        on_step();
      });
  if (!done) return Error{done.error()};
  return rows;
}

Result<FidelityRun> run_fidelity(KvSession& kv, const FidelityPlan& plan,
                                 const ReferenceRows& reference, const OnRow& on_row,
                                 const OnStep& on_step) {
  assert(reference.n_rows() == plan.n_rows());
  FidelityRun run;
  KvCounts before = kv.counts();
  Clock::time_point start;
  auto done = stream(
      kv.session(), plan, [&](int32_t) { start = Clock::now(); },
      [&](int32_t row, std::span<const float> logits) {
        FidelityStep step;
        step.ms = ms_since(start);
        step.position = plan.prefix - 1 + row;
        const KvCounts after = kv.counts();
        if (row > 0) split_time(before, after, step);
        before = after;
        step.live = after.live_tokens;
        step.bytes = after.bytes;
        step.row = reference.compare(row, logits);
        const auto n_vocab = static_cast<int32_t>(logits.size());
        step.c = confidence_of(best_kernels().logit_sums(logits.data(), n_vocab), n_vocab).c;
        run.steps.push_back(step);
        if (on_row) on_row(logits);
        on_step();
      });
  if (!done) return Error{done.error()};
  run.counts = kv.counts();
  return run;
}

}  // namespace kvasir::eval
