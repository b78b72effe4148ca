// Policy `window`: the first tokens and the newest ones. StreamingLLM, "Efficient Streaming
// Language Models with Attention Sinks" (arXiv 2309.17453); without sinks a plain sliding window.
//
// Formula: with budget N (--kv-budget) and S sinks (--kv-sinks) the first S and the newest N - S
// tokens stay, in every layer alike. Score of a token: its position.
// Defaults: S = 4, N must be given. N >= S + 1. Tokens keep their original positions; the paper's
// numbering by place in the cache is --kv-positions cache.
// --kv-protect does not apply: the newest tokens are what stays.
#include <algorithm>
#include <cassert>
#include <memory>

#include "policy/checks.h"
#include "policy/policy.h"

namespace kvasir {
namespace {

class FixedBudget final : public BudgetRule {
 public:
  explicit FixedBudget(int32_t tokens) : tokens_(tokens) {}
  int32_t tokens(const StepState&, int32_t, int32_t) const override { return tokens_; }
  int32_t max_tokens() const override { return tokens_; }

 private:
  int32_t tokens_;
};

class RecencyRanker final : public Ranker {
 public:
  void score(const Candidates& candidates, std::span<float> scores) const override {
    assert(scores.size() == candidates.positions.size());
    // Above 2^24 neighbours may round to one float. Rounding keeps the order, and on ties the
    // older token goes: the outcome is the same as with exact scores.
    std::transform(candidates.positions.begin(), candidates.positions.end(), scores.begin(),
                   [](int32_t position) { return static_cast<float>(position); });
  }
};

}  // namespace

Result<Policy> make_policy_window(const PolicyParams& params) {
  if (auto ok = check_no_conf_flags("window", params); !ok) return Error{ok.error()};
  if (auto ok = check_at_least("--kv-sinks", params.sinks, 0); !ok) return Error{ok.error()};
  if (params.budget == 0) {
    return Error{"--kv-policy window needs --kv-budget N: N tokens per layer, sinks included"};
  }
  const int64_t least = int64_t{params.sinks} + 1;
  if (params.budget < least) {
    return Error{"--kv-budget " + std::to_string(params.budget) + ": allowed is " +
                 std::to_string(least) + " or more, that is --kv-sinks " +
                 std::to_string(params.sinks) + " + 1"};
  }
  Policy policy;
  policy.name = "window";
  policy.budget = std::make_unique<FixedBudget>(params.budget);
  policy.ranker = std::make_unique<RecencyRanker>();
  policy.sinks = params.sinks;
  return policy;
}

}  // namespace kvasir
