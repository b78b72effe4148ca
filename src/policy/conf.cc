// Policy `conf`: CONF-KV (arXiv 2605.24786). The confidence of each step sets the budget, attention
// and recency together choose which tokens stay.
//
// Budget (section "Budget"): N = N_high if c >= tau else N_low, N_high <= N_low; c in confidence.h.
//   The budget when the model is sure is the tight one. A step without logits (a prompt chunk that
//   is evicted as it streams in) counts as unsure: N_low.
// Ranker (section "Ranker"), per layer, over the candidates (neither sinks nor protected):
//   s = alpha * scaled(a) + (1 - alpha) * minmax(position)
//   a <- lambda a + (1 - lambda) m, m = attention probability of the step, mean over query heads
//   The paper leaves open: a term is 0 when its largest and smallest value are equal; a prompt's
//   tokens start from the mean mass of its last 32 queries.
// Defaults (table 5, WikiText-2): N_high 128, N_low 256, tau 0.7, alpha 0.65, lambda 0.90, P 32.
//   --kv-budget N sets N_low = N and N_high = N / 2; P% and --kv-budget-mb likewise; --kv-high and
//   --kv-low win over it. Sinks, 4 by default, are not the paper's: --kv-sinks 0 is.
// Not the paper's, off unless asked for:
//   --kv-shrink D   a sure step lowers the budget by at most D
//   --kv-blend      N = N_low - (N_low - N_high) * c, rounded up; tau is not read
//   --kv-burst N    a layer over its budget gives up N tokens at once
//   --kv-scale      scaled(a) of candidates: minmax (the paper's), rank / (n - 1) with equal values
//                   at the lowest rank, or minmax of log(a + 1e-6)
//   --kv-values     a is multiplied by the L2 norm of the token's value, mean over KV heads
#include "policy/conf.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "policy/budgets.h"
#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

constexpr int32_t kObservedQueries = 32;
constexpr double kLogOffset = 1e-6;  // below any mass that matters; keeps log finite
constexpr uint32_t kReads = kReadsBudget | kReadsHigh | kReadsLow | kReadsTau | kReadsAlpha |
                            kReadsLambda | kReadsProtect | kReadsHeads | kReadsPyramid |
                            kReadsShrink | kReadsBlend | kReadsBurst | kReadsScale | kReadsValues;

class ConfidenceBudget final : public BudgetRule {
 public:
  using Rule = std::unique_ptr<BudgetRule>;
  ConfidenceBudget(Rule high, Rule low, double tau, bool blend)
      : high_(std::move(high)), low_(std::move(low)), tau_(tau), blend_(blend) {}

  // Also where N_high = N_low, so that c can be reported.
  Needs needs() const override { return {.confidence = true}; }

  int32_t tokens(const StepState& step, const LayerState& layer) const override {
    const double c = step.confidence == nullptr ? 0 : step.confidence->c;
    if (!blend_) {
      return (step.confidence != nullptr && c >= tau_ ? high_ : low_)->tokens(step, layer);
    }
    const int32_t low = low_->tokens(step, layer);
    const int32_t high = high_->tokens(step, layer);
    return low - static_cast<int32_t>(std::floor((low - high) * std::clamp(c, 0.0, 1.0)));
  }

 private:
  Rule high_, low_;
  double tau_;
  bool blend_;
};

class ConfRanker final : public Ranker {
 public:
  struct Options {
    double alpha, lambda;
    AttentionScale scale;
    bool values;
    HeadReduction heads;
  };
  explicit ConfRanker(const Options& options) : o_(options) {}

  Needs needs() const override {
    if (o_.alpha == 0) return {};
    Needs needs;
    needs.step_mass = true;
    needs.observed_queries = kObservedQueries;
    needs.rows = o_.values;
    needs.heads = o_.heads;
    return needs;
  }

  // The average of attention, then the norm of the value.
  int32_t n_state() const override { return o_.alpha == 0 ? 0 : (o_.values ? 2 : 1); }

  void observe(const Mass& seen, std::span<float> state) const override {
    fold_average(seen, o_.lambda, state, n_state());
  }

  void arrive(const ArrivingRows& rows, std::span<float> state) const override {
    if (rows.kind == ArrivingRows::Kind::kValues) mean_norms(rows, state.data() + 1, n_state());
  }

  void score(const Candidates& candidates, std::span<float> scores) const override {
    const auto positions = candidates.positions;
    assert(scores.size() == positions.size());
    if (positions.empty()) return;
    if (o_.alpha == 0) {
      std::fill(scores.begin(), scores.end(), 0.0F);
    } else {
      scale_attention(candidates, scores);
    }
    const double oldest = positions.front();
    const double span = positions.back() - oldest;
    for (size_t i = 0; i < positions.size(); ++i) {
      const double recency = span > 0 ? (positions[i] - oldest) / span : 0;
      scores[i] = static_cast<float>(o_.alpha * scores[i] + (1 - o_.alpha) * recency);
    }
  }

 private:
  double attention(const Candidates& candidates, size_t i) const {
    const auto width = static_cast<size_t>(n_state());
    const float* state = candidates.state.data() + i * width;
    return o_.values ? double{state[0]} * state[1] : state[0];
  }

  // Attention of each candidate, scaled to [0, 1].
  void scale_attention(const Candidates& candidates, std::span<float> scaled) const {
    const size_t n = scaled.size();
    assert(candidates.state.size() == n * static_cast<size_t>(n_state()));
    for (size_t i = 0; i < n; ++i) {
      const double a = attention(candidates, i);
      scaled[i] =
          static_cast<float>(o_.scale == AttentionScale::kLog ? std::log(a + kLogOffset) : a);
    }
    if (o_.scale == AttentionScale::kRank) {
      rank(candidates.scratch, scaled);
      return;
    }
    const auto [low, high] = std::minmax_element(scaled.begin(), scaled.end());
    const double least = *low;
    const double range = *high - least;
    for (float& a : scaled) a = range > 0 ? static_cast<float>((a - least) / range) : 0.0F;
  }

  // Replaces each value by the share of the others that are smaller. scratch: [n].
  static void rank(std::span<int32_t> scratch, std::span<float> values) {
    const size_t n = values.size();
    assert(scratch.size() >= n);
    for (size_t i = 0; i < n; ++i) scratch[i] = static_cast<int32_t>(i);
    const auto value = [&](int32_t i) -> float& { return values[static_cast<size_t>(i)]; };
    std::sort(scratch.begin(), scratch.begin() + static_cast<ptrdiff_t>(n),
              [&](int32_t a, int32_t b) { return value(a) < value(b); });
    const float step = n > 1 ? 1.0F / static_cast<float>(n - 1) : 0.0F;
    float last = 0;
    size_t smaller = 0;
    for (size_t i = 0; i < n; ++i) {
      float& v = value(scratch[i]);
      if (i > 0 && v != last) smaller = i;
      last = v;
      v = static_cast<float>(smaller) * step;
    }
  }

  Options o_;
};

// One of the two budgets: tokens, or a share where the flag was --kv-budget P%.
struct Level {
  int32_t tokens = 0;  // 0: a share
  double percent = 0;
  std::string from;     // the flag and value as the user can recognise them
  bool of_cap = false;  // the share is of what --kv-budget-mb leaves

  std::unique_ptr<BudgetRule> rule(int64_t floor) const {
    if (of_cap) return cap_budget(percent / 100, floor);
    return tokens != 0 ? fixed_budget(tokens) : share_budget(percent, floor);
  }
};

struct Levels {
  Level high, low;
};

Level level_of(const char* flag, int32_t given, const PolicyParams& params, double share,
               int32_t initial) {
  const std::string budget = flag_and_value("--kv-budget", params.budget);
  if (given != 0) return {given, 0, flag_and_value(flag, given)};
  if (params.from_cap) return {0, 100 * share, "", true};
  if (params.budget_percent != 0) return {0, params.budget_percent * share, ""};
  if (params.budget == 0) return {initial, 0, flag_and_value(flag, initial) + " (default)"};
  if (share == 1) return {params.budget, 0, budget};
  const auto tokens = static_cast<int32_t>(params.budget * share);
  // Half of 1 is no budget; it is refused for what it is.
  return {std::max(tokens, 1), 0,
          flag_and_value(flag, tokens) + " (" + (share == 0.5 ? "half" : number_text(share)) +
              " of " + budget + ")"};
}

// N_high <= N_low is checked first, so the floor of N_high is that of both. A share and a number
// cannot be compared; the rule keeps a share above the floor.
Result<void> check_levels(const Levels& levels, const BudgetFloor& floor) {
  const Level& high = levels.high;
  const Level& low = levels.low;
  if ((high.tokens == 0) != (low.tokens == 0)) {
    return Error{(high.tokens == 0 ? low : high).from +
                 ": not with a share as --kv-budget; allowed is --kv-budget N"};
  }
  if (high.tokens == 0) return check_percent(low.percent);
  if (high.tokens > low.tokens) {
    return Error{high.from + ": allowed is at most " + low.from + ", the budget of unsure steps"};
  }
  if (high.tokens < floor.tokens) {
    return Error{high.from + ": allowed is " + std::to_string(floor.tokens) + " or more, that is " +
                 floor.text};
  }
  return {};
}

Result<void> check_if_given(const char* flag, int32_t tokens) {
  return tokens == 0 ? Result<void>() : check_at_least(flag, tokens, 1);
}

Result<void> check(const ConfDefaults& defaults, const PolicyParams& params) {
  const uint32_t reads = params.blend ? kReads & ~uint32_t{kReadsTau} : kReads;
  if (auto ok = check_params(defaults.name, params, reads); !ok) return ok;
  if (auto ok = check_if_given("--kv-budget", params.budget); !ok) return ok;
  if (auto ok = check_if_given("--kv-high", params.high); !ok) return ok;
  return check_if_given("--kv-low", params.low);
}

// The rule inside its wrappers: pyramid, then shrink, then burst.
Result<std::unique_ptr<BudgetRule>> make_rule(const ConfDefaults& defaults,
                                              const PolicyParams& params,
                                              const BudgetFloor& floor) {
  const Levels levels{
      level_of("--kv-high", params.high, params, defaults.high_share, defaults.high),
      level_of("--kv-low", params.low, params, 1, defaults.low)};
  if (auto ok = check_levels(levels, floor); !ok) return Error{ok.error()};
  const bool equal =
      levels.high.tokens == levels.low.tokens && levels.high.percent == levels.low.percent;
  std::unique_ptr<BudgetRule> rule = levels.low.rule(floor.tokens);
  if (!equal || defaults.always_confidence) {
    rule = std::make_unique<ConfidenceBudget>(levels.high.rule(floor.tokens), std::move(rule),
                                              params.tau, params.blend);
  }
  auto layered = with_pyramid(std::move(rule), params, floor);
  if (!layered) return layered;
  rule = std::move(layered.value());
  if (params.shrink != 0) rule = shrink_budget(std::move(rule), params.shrink);
  if (params.burst != 1) rule = burst_budget(std::move(rule), params.burst, floor.tokens);
  return rule;
}

}  // namespace

Result<Policy> make_conf(const ConfDefaults& defaults, const PolicyParams& params) {
  if (auto ok = check(defaults, params); !ok) return Error{ok.error()};
  Policy policy;
  policy.name = defaults.name;
  policy.sinks = params.sinks;
  policy.protect = params.protect.value_or(defaults.protect);
  auto rule = make_rule(defaults, params, budget_floor(policy.sinks, policy.protect));
  if (!rule) return Error{rule.error()};
  policy.budget = std::move(rule.value());
  policy.ranker = std::make_unique<ConfRanker>(ConfRanker::Options{
      params.alpha.value_or(defaults.alpha), params.lambda.value_or(defaults.lambda),
      params.scale.value_or(defaults.scale), params.values || defaults.values, params.heads});
  return policy;
}

Result<Policy> make_policy_conf(const PolicyParams& params) {
  return make_conf({.name = "conf"}, params);
}

}  // namespace kvasir
