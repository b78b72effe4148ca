// Policy `attention`: a control, what attention alone is worth under another policy's budget.
//
// Formula: score of a token = moving average of its attention mass, a <- lambda a + (1 - lambda) m,
// as CONF-KV keeps it (conf.cc with alpha = 1), per layer, mean over query heads.
// Defaults: lambda 0.90, P = 32 and sinks 4 as `conf`, so that they differ in the ranker alone;
// after a prompt tokens start from the mean mass of its last 32 queries. The budget is --kv-budget,
// or the recorded one of --kv-schedule, step by step.
#include <memory>

#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

constexpr double kLambda = 0.90;
constexpr int32_t kObservedQueries = 32;

class AttentionRanker final : public StateRanker {
 public:
  AttentionRanker(double lambda, HeadReduction heads) : lambda_(lambda), heads_(heads) {}

  Needs needs() const override {
    Needs needs;
    needs.step_mass = true;
    needs.observed_queries = kObservedQueries;
    needs.heads = heads_;
    return needs;
  }
  void observe(const Mass& seen, std::span<float> state) const override {
    fold_average(seen, lambda_, state, 1);
  }

 private:
  double lambda_;
  HeadReduction heads_;
};

}  // namespace

Result<Policy> make_policy_attention(const PolicyParams& params) {
  return make_ranked_policy(
      "attention", params,
      kReadsBudget | kReadsProtect | kReadsPyramid | kReadsSchedule | kReadsLambda | kReadsHeads,
      32, std::make_unique<AttentionRanker>(params.lambda.value_or(kLambda), params.heads));
}

}  // namespace kvasir
