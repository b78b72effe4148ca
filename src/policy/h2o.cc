// Policy `h2o`: H2O, "Heavy-Hitter Oracle for Efficient Generative Inference of Large Language
// Models" (arXiv 2306.14048): the tokens that received most attention so far, and the newest ones.
//
// Formula: score of a token = sum over all queries since it arrived, prompt and decode, of its
// attention weight. Half of the budget is for the newest tokens, half for heavy ones; sinks count
// among the latter. With --kv-by-age the sum is divided by the number of queries that saw the
// token, since early tokens are seen by more. An evicted token's sum is dropped. Defaults: recent =
// N / 2 rounded down (the paper's equal split; --kv-protect P sets it to P), sinks 4 (the paper has
// none). The paper scores and evicts per head, of models without grouped queries; here a layer
// keeps the same tokens for all heads: the mean over query heads (--kv-heads max: the largest).
// Tokens keep their original positions (--kv-positions cache: the paper's code that drops rows).
#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include "policy/budgets.h"
#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

constexpr double kRecentShare = 0.5;

class HeavyRanker final : public Ranker {
 public:
  HeavyRanker(bool by_age, HeadReduction heads) : by_age_(by_age), heads_(heads) {}

  Needs needs() const override {
    Needs needs;
    needs.step_mass = true;
    needs.column_sums = true;
    needs.heads = heads_;
    return needs;
  }
  // The sum, to which a prompt's queries are added before anything is observed.
  int32_t n_state() const override { return 1; }

  void observe(const Mass& seen, std::span<float> state) const override {
    assert(seen.kind == Mass::Kind::kStep && state.size() == seen.mass.size());
    for (size_t i = 0; i < state.size(); ++i) state[i] += finite_mass(seen.mass[i]);
  }

  void score(const Candidates& candidates, std::span<float> scores) const override {
    assert(scores.size() == candidates.state.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      const int64_t seen_by = int64_t{candidates.newest} - candidates.positions[i] + 1;
      const auto age = static_cast<float>(std::max<int64_t>(1, seen_by));
      scores[i] = by_age_ ? candidates.state[i] / age : candidates.state[i];
    }
  }

 private:
  bool by_age_;
  HeadReduction heads_;
};

}  // namespace

Result<Policy> make_policy_h2o(const PolicyParams& params) {
  constexpr uint32_t kReads =
      kReadsBudget | kReadsProtect | kReadsPyramid | kReadsHeads | kReadsByAge;
  auto ranker = std::make_unique<HeavyRanker>(params.by_age, params.heads);
  if (params.protect) return make_ranked_policy("h2o", params, kReads, 0, std::move(ranker));
  // The heavy half must hold the sinks and one token more.
  if (auto ok = check_params("h2o", params, kReads); !ok) return Error{ok.error()};
  const std::string sinks = flag_and_value("--kv-sinks", params.sinks);
  BudgetFloor floor;
  floor.tokens = 2 * int64_t{params.sinks} + 1;
  floor.text = "twice " + sinks + " + 1: half is for the newest tokens";
  auto budget = make_budget("h2o", params, floor);
  if (!budget) return Error{budget.error()};
  Policy policy;
  policy.name = "h2o";
  policy.sinks = params.sinks;
  policy.protect_share = kRecentShare;
  policy.budget = std::move(budget.value());
  policy.ranker = std::move(ranker);
  return policy;
}

}  // namespace kvasir
