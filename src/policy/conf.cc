// Policy `conf`: CONF-KV (arXiv 2605.24786). The confidence of each step sets the budget, attention
// and recency together choose which tokens stay.
//
// Budget (section "Budget"): N = N_high if c >= tau else N_low, N_high <= N_low; c in confidence.h.
//   The budget when the model is sure is the tight one. A step without logits (a prompt chunk that
//   is evicted as it streams in) counts as unsure: N_low.
// Ranker (section "Ranker"), per layer, over the candidates (neither sinks nor protected):
//   s = alpha * minmax(a) + (1 - alpha) * minmax(position)
//   a <- lambda a + (1 - lambda) m, m = attention probability of the step, mean over query heads
//   The paper leaves open: a term is 0 when its largest and smallest value are equal; a prompt's
//   tokens start from the mean mass of its last 32 queries.
// Defaults (table 5, WikiText-2): N_high 128, N_low 256, tau 0.7, alpha 0.65, lambda 0.90, P 32.
//   --kv-budget N sets N_low = N and N_high = N / 2; --kv-high and --kv-low win over it.
//   Sinks, 4 by default, are not the paper's: --kv-sinks 0 is.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>

#include "policy/checks.h"
#include "policy/policy.h"

namespace kvasir {
namespace {

constexpr int32_t kDefaultHigh = 128;
constexpr int32_t kDefaultLow = 256;
constexpr int32_t kObservedQueries = 32;

class ConfidenceBudget final : public BudgetRule {
 public:
  ConfidenceBudget(int32_t high, int32_t low, double tau) : high_(high), low_(low), tau_(tau) {}

  // Also where N_high = N_low, so that c can be reported.
  Needs needs() const override { return {.confidence = true}; }

  int32_t tokens(const StepState& step, int32_t, int32_t) const override {
    return step.confidence != nullptr && step.confidence->c >= tau_ ? high_ : low_;
  }
  int32_t max_tokens() const override { return low_; }

 private:
  int32_t high_, low_;
  double tau_;
};

class ConfRanker final : public Ranker {
 public:
  ConfRanker(double alpha, double lambda) : alpha_(alpha), lambda_(lambda) {}

  Needs needs() const override {
    if (alpha_ == 0) return {};
    return {.confidence = false, .step_mass = true, .observed_queries = kObservedQueries};
  }

  void observe(std::span<const float> mass, int32_t n_fresh, bool prefill,
               std::span<float> state) const override {
    assert(mass.size() == state.size());
    assert(n_fresh >= 0 && static_cast<size_t>(n_fresh) <= state.size());
    const size_t n_known = state.size() - static_cast<size_t>(n_fresh);
    for (size_t i = 0; i < state.size(); ++i) {
      // A model that yields NaN must not poison the ranking for the rest of the stream.
      const double m = std::isfinite(mass[i]) ? mass[i] : 0.0;
      const bool seed = prefill && i >= n_known;
      state[i] = static_cast<float>(seed ? m : lambda_ * state[i] + (1 - lambda_) * m);
    }
  }

  void score(const Candidates& candidates, std::span<float> scores) const override {
    const auto positions = candidates.positions;
    const auto state = candidates.state;
    assert(scores.size() == positions.size());
    assert(alpha_ == 0 || state.size() == positions.size());
    if (positions.empty()) return;
    double least = 0, range = 0;
    if (alpha_ != 0) {
      const auto [low, high] = std::minmax_element(state.begin(), state.end());
      least = *low;
      range = static_cast<double>(*high) - least;
    }
    const double oldest = positions.front();
    const double span = positions.back() - oldest;
    for (size_t i = 0; i < positions.size(); ++i) {
      const double attention = range > 0 ? (state[i] - least) / range : 0;
      const double recency = span > 0 ? (positions[i] - oldest) / span : 0;
      scores[i] = static_cast<float>(alpha_ * attention + (1 - alpha_) * recency);
    }
  }

 private:
  double alpha_, lambda_;
};

struct Budgets {
  int32_t high, low;
  std::string high_from, low_from;  // the flag and value as the user can recognise them
};

std::string flag_and_value(const char* flag, int32_t value) {
  return std::string(flag) + " " + std::to_string(value);
}

Budgets budgets_of(const PolicyParams& params) {
  Budgets out{kDefaultHigh, kDefaultLow, "", ""};
  const std::string budget = flag_and_value("--kv-budget", params.budget);
  if (params.low != 0) {
    out.low = params.low;
    out.low_from = flag_and_value("--kv-low", out.low);
  } else if (params.budget != 0) {
    out.low = params.budget;
    out.low_from = budget;
  } else {
    out.low_from = flag_and_value("--kv-low", out.low) + " (default)";
  }
  if (params.high != 0) {
    out.high = params.high;
    out.high_from = flag_and_value("--kv-high", out.high);
  } else if (params.budget != 0) {
    out.high = params.budget / 2;
    out.high_from = flag_and_value("--kv-high", out.high) + " (half of " + budget + ")";
  } else {
    out.high_from = flag_and_value("--kv-high", out.high) + " (default)";
  }
  return out;
}

// N_high <= N_low is checked first, so the floor of N_high is that of both.
Result<void> check_budgets(const Budgets& budgets, const PolicyParams& params) {
  if (budgets.high > budgets.low) {
    return Error{budgets.high_from + ": allowed is at most " + budgets.low_from +
                 ", the budget of unsure steps"};
  }
  const int64_t least = int64_t{params.sinks} + params.protect + 1;
  if (budgets.high < least) {
    return Error{budgets.high_from + ": allowed is " + std::to_string(least) +
                 " or more, that is " + flag_and_value("--kv-sinks", params.sinks) + " + " +
                 flag_and_value("--kv-protect", params.protect) + " + 1"};
  }
  return {};
}

Result<void> check_if_given(const char* flag, int32_t tokens) {
  return tokens == 0 ? Result<void>() : check_at_least(flag, tokens, 1);
}

Result<void> check(const PolicyParams& params) {
  if (auto ok = check_fraction("--kv-tau", params.tau); !ok) return ok;
  if (auto ok = check_fraction("--kv-alpha", params.alpha); !ok) return ok;
  if (auto ok = check_fraction("--kv-lambda", params.lambda); !ok) return ok;
  if (auto ok = check_at_least("--kv-protect", params.protect, 0); !ok) return ok;
  if (auto ok = check_if_given("--kv-budget", params.budget); !ok) return ok;
  if (auto ok = check_if_given("--kv-high", params.high); !ok) return ok;
  if (auto ok = check_if_given("--kv-low", params.low); !ok) return ok;
  return check_at_least("--kv-sinks", params.sinks, 0);
}

}  // namespace

Result<Policy> make_policy_conf(const PolicyParams& params) {
  if (auto ok = check(params); !ok) return Error{ok.error()};
  const Budgets budgets = budgets_of(params);
  if (auto ok = check_budgets(budgets, params); !ok) return Error{ok.error()};
  Policy policy;
  policy.name = "conf";
  policy.budget = std::make_unique<ConfidenceBudget>(budgets.high, budgets.low, params.tau);
  policy.ranker = std::make_unique<ConfRanker>(params.alpha, params.lambda);
  policy.sinks = params.sinks;
  policy.protect = params.protect;
  return policy;
}

}  // namespace kvasir
