#include "policy/budgets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "policy/checks.h"

namespace kvasir {
namespace {

int32_t clamped(double tokens) {
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp(std::floor(tokens), 0.0, kMost));
}

class FixedBudget final : public BudgetRule {
 public:
  explicit FixedBudget(int32_t tokens) : tokens_(tokens) {}
  int32_t tokens(const StepState&, const LayerState&) const override { return tokens_; }

 private:
  int32_t tokens_;
};

class ShareBudget final : public BudgetRule {
 public:
  ShareBudget(double percent, int64_t floor) : share_(percent / 100), floor_(floor) {}
  int32_t tokens(const StepState& step, const LayerState&) const override {
    return clamped(std::max(static_cast<double>(floor_), share_ * step.n_tokens));
  }

 private:
  double share_;
  int64_t floor_;
};

class CapBudget final : public BudgetRule {
 public:
  CapBudget(double share, int64_t floor) : share_(share), floor_(floor) {}
  int32_t tokens(const StepState& step, const LayerState&) const override {
    if (step.allowance == std::numeric_limits<int32_t>::max()) return step.allowance;
    return clamped(std::max(static_cast<double>(floor_), share_ * step.allowance));
  }

 private:
  double share_;
  int64_t floor_;
};

// Past the end of the record its last budget holds on.
class ScheduleBudget final : public BudgetRule {
 public:
  explicit ScheduleBudget(std::vector<int32_t> budgets) : budgets_(std::move(budgets)) {}
  int32_t tokens(const StepState& step, const LayerState&) const override {
    const auto last = static_cast<int64_t>(budgets_.size()) - 1;
    return budgets_[static_cast<size_t>(std::clamp<int64_t>(step.step, 0, last))];
  }

 private:
  std::vector<int32_t> budgets_;
};

/// A rule around another.
class OuterBudget : public BudgetRule {
 public:
  explicit OuterBudget(std::unique_ptr<BudgetRule> inside) : inside_(std::move(inside)) {}
  Needs needs() const override { return inside_->needs(); }

 protected:
  const BudgetRule& inside() const { return *inside_; }

 private:
  std::unique_ptr<BudgetRule> inside_;
};

class PyramidBudget final : public OuterBudget {
 public:
  PyramidBudget(std::unique_ptr<BudgetRule> inside, Pyramid pyramid)
      : OuterBudget(std::move(inside)), pyramid_(pyramid) {}
  int32_t tokens(const StepState& step, const LayerState& layer) const override {
    const int32_t n = inside().tokens(step, layer);
    const double depth = static_cast<double>(layer.layer) / std::max(1, layer.n_layers);
    return std::min(n, std::max(pyramid_.n_min, clamped(n * std::pow(pyramid_.beta, depth))));
  }

 private:
  Pyramid pyramid_;
};

class ShrinkBudget final : public OuterBudget {
 public:
  ShrinkBudget(std::unique_ptr<BudgetRule> inside, int32_t step)
      : OuterBudget(std::move(inside)), step_(step) {}
  int32_t tokens(const StepState& step, const LayerState& layer) const override {
    StepState unsure = step;
    unsure.confidence = nullptr;
    const int32_t most = inside().tokens(unsure, layer);
    return std::min(most, std::max(inside().tokens(step, layer), layer.live - step_));
  }

 private:
  int32_t step_;
};

class BurstBudget final : public OuterBudget {
 public:
  BurstBudget(std::unique_ptr<BudgetRule> inside, int32_t burst, int64_t floor)
      : OuterBudget(std::move(inside)), burst_(burst), floor_(floor) {}
  int32_t tokens(const StepState& step, const LayerState& layer) const override {
    const int32_t n = inside().tokens(step, layer);
    if (layer.live <= n) return n;
    return static_cast<int32_t>(std::min<int64_t>(n, std::max(floor_, int64_t{n} + 1 - burst_)));
  }

 private:
  int32_t burst_;
  int64_t floor_;
};

Error below_floor(const std::string& found, const BudgetFloor& floor) {
  return Error{found + ": allowed is " + std::to_string(floor.tokens) + " or more, that is " +
               floor.text};
}

// The innermost rule.
Result<std::unique_ptr<BudgetRule>> given_budget(std::string_view name, const PolicyParams& params,
                                                 const BudgetFloor& floor) {
  if (!params.schedule_path.empty()) {
    const std::string flag = "--kv-schedule " + params.schedule_path;
    if (params.budget != 0 || params.budget_percent != 0) {
      return Error{flag + ": sets the budget; allowed is either this or --kv-budget"};
    }
    if (params.schedule.empty()) return Error{flag + ": holds no budget of any step"};
    const int32_t least = *std::min_element(params.schedule.begin(), params.schedule.end());
    if (least < floor.tokens) {
      return below_floor(flag + " holds a budget of " + std::to_string(least), floor);
    }
    return std::unique_ptr<BudgetRule>(std::make_unique<ScheduleBudget>(params.schedule));
  }
  if (params.budget_percent != 0) {
    if (auto ok = check_percent(params.budget_percent); !ok) return Error{ok.error()};
    return share_budget(params.budget_percent, floor.tokens);
  }
  if (params.from_cap) return cap_budget(1, floor.tokens);
  if (params.budget == 0) {
    return Error{"--kv-policy " + std::string(name) +
                 " needs --kv-budget N: N tokens per layer, sinks included; or --kv-budget-mb M"};
  }
  if (params.budget < floor.tokens) {
    return below_floor(flag_and_value("--kv-budget", params.budget), floor);
  }
  return fixed_budget(params.budget);
}

}  // namespace

BudgetFloor budget_floor(int32_t sinks, int32_t protect) {
  BudgetFloor floor;
  floor.tokens = int64_t{sinks} + protect + 1;
  floor.text = flag_and_value("--kv-sinks", sinks);
  if (protect != 0) floor.text.append(" + ").append(flag_and_value("--kv-protect", protect));
  floor.text.append(" + 1");
  return floor;
}

std::unique_ptr<BudgetRule> fixed_budget(int32_t tokens) {
  return std::make_unique<FixedBudget>(tokens);
}

std::unique_ptr<BudgetRule> share_budget(double percent, int64_t floor) {
  return std::make_unique<ShareBudget>(percent, floor);
}

std::unique_ptr<BudgetRule> cap_budget(double share, int64_t floor) {
  return std::make_unique<CapBudget>(share, floor);
}

std::unique_ptr<BudgetRule> pyramid_budget(std::unique_ptr<BudgetRule> inside, Pyramid pyramid) {
  return std::make_unique<PyramidBudget>(std::move(inside), pyramid);
}

std::unique_ptr<BudgetRule> shrink_budget(std::unique_ptr<BudgetRule> inside, int32_t step) {
  return std::make_unique<ShrinkBudget>(std::move(inside), step);
}

std::unique_ptr<BudgetRule> burst_budget(std::unique_ptr<BudgetRule> inside, int32_t burst,
                                         int64_t floor) {
  return std::make_unique<BurstBudget>(std::move(inside), burst, floor);
}

Result<void> check_percent(double percent) {
  if (percent > 0 && percent <= 100) return {};
  return Error{"--kv-budget " + number_text(percent) +
               "%: allowed is a share above 0% and at most 100%"};
}

Result<std::unique_ptr<BudgetRule>> with_pyramid(std::unique_ptr<BudgetRule> inside,
                                                 const PolicyParams& params,
                                                 const BudgetFloor& floor) {
  if (!params.pyramid) return inside;
  const Pyramid& pyramid = *params.pyramid;
  const std::string flag =
      "--kv-pyramid " + number_text(pyramid.beta) + "," + std::to_string(pyramid.n_min);
  if (!(pyramid.beta > 0 && pyramid.beta <= 1)) {
    return Error{flag + ": allowed for BETA is a number above 0 and at most 1"};
  }
  if (pyramid.n_min < floor.tokens) return below_floor(flag + ", NMIN", floor);
  return pyramid_budget(std::move(inside), pyramid);
}

Result<std::unique_ptr<BudgetRule>> make_budget(std::string_view name, const PolicyParams& params,
                                                const BudgetFloor& floor) {
  Result<std::unique_ptr<BudgetRule>> rule = given_budget(name, params, floor);
  if (!rule) return rule;
  return with_pyramid(std::move(rule.value()), params, floor);
}

}  // namespace kvasir
