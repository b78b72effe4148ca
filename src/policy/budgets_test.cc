// Budget rules and what they are made of, by hand; and the refusals of their flags.
#include "policy/budgets.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace kvasir {
namespace {

PolicyParams with(const std::function<void(PolicyParams&)>& change) {
  PolicyParams params;
  change(params);
  return params;
}

Policy made(const std::string& name, const PolicyParams& params) {
  auto policy = make_policy(name, params);
  EXPECT_TRUE(policy) << policy.error();
  return std::move(policy.value());
}

/// Budget of a policy after a step of confidence c over `n_tokens`, in a layer.
int32_t at(const Policy& policy, double c, int32_t n_tokens = 0, LayerState layer = {}) {
  Confidence confidence;
  confidence.c = c;
  StepState step{true, &confidence};
  step.n_tokens = n_tokens;
  return policy.budget->tokens(step, layer);
}

TEST(Share, IsOfTheTokensSeenAndKeepsTheFloor) {
  const Policy window = made("window", with([](auto& p) { p.budget_percent = 25; }));
  EXPECT_EQ(at(window, 1, 1000), 250);
  EXPECT_EQ(at(window, 1, 1003), 250);
  EXPECT_EQ(at(window, 1, 8), 5);  // sinks + 1
  EXPECT_EQ(at(window, 1, 2147483647), 536870911);
  const Policy conf = made("conf", with([](auto& p) { p.budget_percent = 30; }));
  EXPECT_EQ(at(conf, 0.2, 1000), 300);
  EXPECT_EQ(at(conf, 0.9, 1000), 150);
  EXPECT_EQ(at(conf, 0.9, 100), 37);
  EXPECT_EQ(at(made("conf+", with([](auto& p) { p.budget_percent = 30; })), 0.9, 1000), 300);
}

TEST(PyramidRule, CONFKVL) {
  const Policy conf = made("conf", with([](auto& p) { p.pyramid = Pyramid{0.5, 96}; }));
  EXPECT_EQ(at(conf, 1, 0, {0, 12, 0}), 128);
  EXPECT_EQ(at(conf, 1, 0, {4, 12, 0}), 101);  // 128 * 0.5^(1/3) = 101.6
  EXPECT_EQ(at(conf, 1, 0, {6, 12, 0}), 96);   // 90.5, below NMIN
  EXPECT_EQ(at(conf, 0, 0, {6, 12, 0}), 181);  // 256 * 0.5^0.5
  EXPECT_EQ(at(conf, 0, 0, {11, 12, 0}), 135);
  // NMIN never lifts a budget above what it was without a pyramid.
  const Policy small = made("window", with([](auto& p) {
                              p.budget = 64;
                              p.pyramid = Pyramid{0.5, 96};
                            }));
  EXPECT_EQ(at(small, 1, 0, {3, 12, 0}), 64);
}

TEST(Shrink, FallsByAtMostD) {
  const Policy conf = made("conf", with([](auto& p) {
                             p.high = 100;
                             p.low = 200;
                             p.shrink = 10;
                           }));
  EXPECT_EQ(at(conf, 0.9, 0, {0, 1, 180}), 170);
  EXPECT_EQ(at(conf, 0.9, 0, {0, 1, 105}), 100);
  EXPECT_EQ(at(conf, 0.9, 0, {0, 1, 9000}), 200);  // after a prompt
  EXPECT_EQ(at(conf, 0.2, 0, {0, 1, 180}), 200);
}

TEST(Blend, LiesBetweenTheBudgets) {
  const Policy conf = made("conf", with([](auto& p) {
                             p.high = 100;
                             p.low = 200;
                             p.blend = true;
                           }));
  EXPECT_EQ(at(conf, 0), 200);
  EXPECT_EQ(at(conf, 0.155), 185);
  EXPECT_EQ(at(conf, 0.5), 150);
  EXPECT_EQ(at(conf, 1), 100);
  EXPECT_EQ(conf.budget->tokens({}, {}), 200);
}

TEST(Burst, CutsDeeperAndLeavesRoom) {
  const Policy conf = made("conf", with([](auto& p) {
                             p.high = p.low = 64;
                             p.burst = 16;
                           }));
  EXPECT_EQ(at(conf, 1, 0, {0, 1, 64}), 64);
  EXPECT_EQ(at(conf, 1, 0, {0, 1, 65}), 49);
  EXPECT_EQ(at(conf, 1, 0, {0, 1, 900}), 49);
  const Policy floor = made("conf", with([](auto& p) {
                              p.high = p.low = 64;
                              p.burst = 60;
                            }));
  EXPECT_EQ(at(floor, 1, 0, {0, 1, 65}), 37);
}

TEST(Schedule, GivesTheBudgetOfEachStep) {
  const Policy random = made("random", with([](auto& p) {
                               p.schedule_path = "run.jsonl";
                               p.schedule = {100, 50, 77};
                             }));
  StepState step;
  for (const int32_t expected : {100, 50, 77, 77}) {
    EXPECT_EQ(random.budget->tokens(step, {}), expected);
    ++step.step;
  }
}

struct Refusal {
  const char* policy;
  std::function<void(PolicyParams&)> change;
  const char* message;
};

const Refusal kRefusals[] = {
    {"tova", [](auto&) {},
     "--kv-policy tova needs --kv-budget N: N tokens per layer, sinks included; or --kv-budget-mb "
     "M"},
    {"snapkv", [](auto& p) { p.budget = 36; },
     "--kv-budget 36: allowed is 37 or more, that is --kv-sinks 4 + --kv-protect 32 + 1"},
    {"window", [](auto& p) { p.budget_percent = 101; },
     "--kv-budget 101%: allowed is a share above 0% and at most 100%"},
    {"conf", [](auto& p) { p.budget_percent = std::numeric_limits<double>::quiet_NaN(); },
     "--kv-budget nan%: allowed is a share above 0% and at most 100%"},
    {"none", [](auto& p) { p.budget_percent = 25; },
     "--kv-budget 25%: policy none keeps every token; choose a --kv-policy that evicts, or leave "
     "the budget out"},
    {"conf",
     [](auto& p) {
       p.budget_percent = 25;
       p.high = 64;
     },
     "--kv-high 64: not with a share as --kv-budget; allowed is --kv-budget N"},
    {"conf",
     [](auto& p) {
       p.pyramid = Pyramid{0.5, 36};
     },
     "--kv-pyramid 0.5,36, NMIN: allowed is 37 or more, that is --kv-sinks 4 + --kv-protect 32 + "
     "1"},
    {"conf",
     [](auto& p) {
       p.pyramid = Pyramid{1.5, 96};
     },
     "--kv-pyramid 1.5,96: allowed for BETA is a number above 0 and at most 1"},
    {"pyramidkv",
     [](auto& p) {
       p.budget = 256;
       p.pyramid = Pyramid{0.5, 96};
     },
     "--kv-pyramid 0.5,96: policy pyramidkv does not use it; it uses --kv-budget, --kv-protect, "
     "--kv-heads, --kv-sinks"},
    {"conf",
     [](auto& p) {
       p.blend = true;
       p.tau = 0.8;
     },
     "--kv-tau 0.8: policy conf does not use it; it uses --kv-budget, --kv-high, --kv-low, "
     "--kv-alpha, --kv-lambda, --kv-protect, --kv-heads, --kv-pyramid, --kv-shrink, --kv-blend, "
     "--kv-burst, --kv-scale, --kv-values, --kv-sinks"},
    {"window",
     [](auto& p) {
       p.budget = 64;
       p.by_age = true;
     },
     "--kv-by-age: policy window does not use it; it uses --kv-budget, --kv-protect, --kv-pyramid, "
     "--kv-sinks"},
    {"conf", [](auto& p) { p.burst = 0; }, "--kv-burst 0: allowed is 1 or more"},
    {"random",
     [](auto& p) {
       p.schedule_path = "run.jsonl";
       p.schedule = {100};
       p.budget = 64;
     },
     "--kv-schedule run.jsonl: sets the budget; allowed is either this or --kv-budget"},
    {"random", [](auto& p) { p.schedule_path = "run.jsonl"; },
     "--kv-schedule run.jsonl: holds no budget of any step"},
    {"random",
     [](auto& p) {
       p.schedule_path = "run.jsonl";
       p.schedule = {100, 36, 40};
     },
     "--kv-schedule run.jsonl holds a budget of 36: allowed is 37 or more, that is --kv-sinks 4 + "
     "--kv-protect 32 + 1"},
    {"conf",
     [](auto& p) {
       p.schedule_path = "run.jsonl";
       p.schedule = {100};
     },
     "--kv-schedule run.jsonl: policy conf does not use it; it uses --kv-budget, --kv-high, "
     "--kv-low, "
     "--kv-tau, --kv-alpha, --kv-lambda, --kv-protect, --kv-heads, --kv-pyramid, --kv-shrink, "
     "--kv-blend, --kv-burst, --kv-scale, --kv-values, --kv-sinks"},
};

TEST(Refused, WithTheWholeMessageOfBudgets) {
  for (const Refusal& refusal : kRefusals) {
    const auto policy = make_policy(refusal.policy, with(refusal.change));
    EXPECT_FALSE(policy) << "accepted, expected: " << refusal.message;
    EXPECT_EQ(policy.error(), refusal.message);
  }
}

}  // namespace
}  // namespace kvasir
