// Which names and parameters are accepted, and the whole text of every refusal.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "policy/policy.h"

namespace kvasir {
namespace {

constexpr int32_t kNoLimit = std::numeric_limits<int32_t>::max();

const std::vector<std::string_view> kNames = {
    "none",      "window", "conf",    "conf+", "streaming", "h2o",     "scissorhands", "snapkv",
    "pyramidkv", "tova",   "keydiff", "knorm", "random",    "recency", "attention"};

std::string joined_names() {
  std::string text;
  for (const auto name : kNames) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

PolicyParams with(const std::function<void(PolicyParams&)>& change) {
  PolicyParams params;
  change(params);
  return params;
}

TEST(Registry, NamesInOrder) { EXPECT_EQ(policy_names(), kNames); }

TEST(Registry, EveryNameMakesAPolicyOfThatName) {
  for (const auto name : policy_names()) {
    const auto policy =
        make_policy(name, with([&](auto& p) { p.budget = name == "none" ? 0 : 4096; }));
    ASSERT_TRUE(policy) << policy.error();
    EXPECT_EQ(policy.value().name, name);
    EXPECT_EQ(policy.value().evicts(), name != "none");
    ASSERT_NE(policy.value().budget, nullptr);
  }
}

TEST(Registry, NeedsAreJoined) {
  const Needs both = Needs{.confidence = true, .observed_queries = 8} |
                     Needs{.step_mass = true, .observed_queries = 3};
  EXPECT_TRUE(both.confidence);
  EXPECT_TRUE(both.step_mass);
  EXPECT_EQ(both.observed_queries, 8);
  const Needs nothing = Needs{} | Needs{};
  EXPECT_FALSE(nothing.confidence);
  EXPECT_FALSE(nothing.step_mass);
  EXPECT_EQ(nothing.observed_queries, 0);
}

TEST(None, KeepsEverythingAndNeedsNothing) {
  const auto policy = make_policy("none", with([](auto& p) { p.sinks = 0; }));
  ASSERT_TRUE(policy) << policy.error();
  EXPECT_FALSE(policy.value().evicts());
  EXPECT_EQ(policy.value().budget->tokens({}, {0, 30, 0}), kNoLimit);
  EXPECT_FALSE(policy.value().needs().confidence);
  EXPECT_FALSE(policy.value().needs().step_mass);
}

TEST(Window, FixedBudgetNewestFirstNeedsNothing) {
  const auto made = make_policy("window", with([](auto& p) {
                                  p.budget = 5;
                                  p.sinks = 4;
                                }));
  ASSERT_TRUE(made) << made.error();
  const Policy& policy = made.value();
  EXPECT_EQ(policy.sinks, 4);
  EXPECT_EQ(policy.protect, 0);
  EXPECT_FALSE(policy.needs().confidence);
  EXPECT_FALSE(policy.needs().step_mass);
  EXPECT_EQ(policy.needs().observed_queries, 0);
  Confidence sure;
  sure.c = 1;
  EXPECT_EQ(policy.budget->tokens({true, &sure}, {3, 30, 0}), 5);
  EXPECT_EQ(policy.budget->tokens({false, nullptr}, {29, 30, 0}), 5);
  const std::vector<int32_t> positions = {4, 9, 10, 100000};
  std::vector<float> scores(4);
  policy.ranker->score({positions, {}, {}}, scores);
  for (size_t i = 1; i < scores.size(); ++i) EXPECT_LT(scores[i - 1], scores[i]);
}

#define WINDOW_FLAGS "--kv-budget, --kv-protect, --kv-pyramid, --kv-sinks"

struct Refusal {
  const char* policy;
  std::function<void(PolicyParams&)> change;
  const char* message;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Refusal kRefusals[] = {
    {"none", [](auto& p) { p.budget = 512; },
     "--kv-budget 512: policy none keeps every token; choose a --kv-policy that evicts, or leave "
     "the budget out"},
    {"none", [](auto& p) { p.high = 64; },
     "--kv-high 64: policy none does not use it; it uses --kv-sinks"},
    {"none", [](auto& p) { p.sinks = -1; }, "--kv-sinks -1: allowed is 0 or more"},

    {"window", [](auto&) {},
     "--kv-policy window needs --kv-budget N: N tokens per layer, sinks included; or "
     "--kv-budget-mb M"},
    {"window", [](auto& p) { p.budget = 4; },
     "--kv-budget 4: allowed is 5 or more, that is --kv-sinks 4 + 1"},
    {"window", [](auto& p) { p.budget = -7; },
     "--kv-budget -7: allowed is 5 or more, that is --kv-sinks 4 + 1"},
    {"window",
     [](auto& p) {
       p.budget = kNoLimit;
       p.sinks = kNoLimit;
     },
     "--kv-budget 2147483647: allowed is 2147483648 or more, that is --kv-sinks 2147483647 + 1"},
    {"window",
     [](auto& p) {
       p.budget = 8;
       p.sinks = -2;
     },
     "--kv-sinks -2: allowed is 0 or more"},
    {"window", [](auto& p) { p.low = 300; },
     "--kv-low 300: policy window does not use it; it uses " WINDOW_FLAGS},
    {"window", [](auto& p) { p.tau = 0.5; },
     "--kv-tau 0.5: policy window does not use it; it uses " WINDOW_FLAGS},
    {"window", [](auto& p) { p.alpha = 0; },
     "--kv-alpha 0: policy window does not use it; it uses " WINDOW_FLAGS},
    {"window", [](auto& p) { p.lambda = 0.99; },
     "--kv-lambda 0.99: policy window does not use it; it uses " WINDOW_FLAGS},
    {"window",
     [](auto& p) {
       p.budget = 8;
       p.protect = 4;
     },
     "--kv-budget 8: allowed is 9 or more, that is --kv-sinks 4 + --kv-protect 4 + 1"},

    {"conf", [](auto& p) { p.tau = 1.5; }, "--kv-tau 1.5: allowed is a number from 0 to 1"},
    {"conf", [](auto& p) { p.tau = -0.25; }, "--kv-tau -0.25: allowed is a number from 0 to 1"},
    {"conf", [](auto& p) { p.tau = kNan; }, "--kv-tau nan: allowed is a number from 0 to 1"},
    {"conf", [](auto& p) { p.alpha = 2; }, "--kv-alpha 2: allowed is a number from 0 to 1"},
    {"conf", [](auto& p) { p.alpha = kNan; }, "--kv-alpha nan: allowed is a number from 0 to 1"},
    {"conf", [](auto& p) { p.lambda = 1.001; },
     "--kv-lambda 1.001: allowed is a number from 0 to 1"},
    {"conf", [](auto& p) { p.lambda = kNan; }, "--kv-lambda nan: allowed is a number from 0 to 1"},
    {"conf", [](auto& p) { p.protect = -1; }, "--kv-protect -1: allowed is 0 or more"},
    {"conf", [](auto& p) { p.sinks = -4; }, "--kv-sinks -4: allowed is 0 or more"},
    {"conf", [](auto& p) { p.budget = -64; }, "--kv-budget -64: allowed is 1 or more"},
    {"conf", [](auto& p) { p.high = -1; }, "--kv-high -1: allowed is 1 or more"},
    {"conf", [](auto& p) { p.low = -1; }, "--kv-low -1: allowed is 1 or more"},
    {"conf",
     [](auto& p) {
       p.high = 300;
       p.low = 200;
     },
     "--kv-high 300: allowed is at most --kv-low 200, the budget of unsure steps"},
    {"conf", [](auto& p) { p.high = 300; },
     "--kv-high 300: allowed is at most --kv-low 256 (default), the budget of unsure steps"},
    {"conf", [](auto& p) { p.low = 100; },
     "--kv-high 128 (default): allowed is at most --kv-low 100, the budget of unsure steps"},
    {"conf",
     [](auto& p) {
       p.high = 300;
       p.budget = 200;
     },
     "--kv-high 300: allowed is at most --kv-budget 200, the budget of unsure steps"},
    {"conf",
     [](auto& p) {
       p.budget = 400;
       p.low = 100;
     },
     "--kv-high 200 (half of --kv-budget 400): allowed is at most --kv-low 100, the budget of "
     "unsure steps"},
    {"conf", [](auto& p) { p.high = 36; },
     "--kv-high 36: allowed is 37 or more, that is --kv-sinks 4 + --kv-protect 32 + 1"},
    {"conf", [](auto& p) { p.budget = 73; },
     "--kv-high 36 (half of --kv-budget 73): allowed is 37 or more, that is --kv-sinks 4 + "
     "--kv-protect 32 + 1"},
    {"conf", [](auto& p) { p.protect = 200; },
     "--kv-high 128 (default): allowed is 205 or more, that is --kv-sinks 4 + --kv-protect 200 + "
     "1"},
    {"conf",
     [](auto& p) {
       p.sinks = kNoLimit;
       p.protect = kNoLimit;
     },
     "--kv-high 128 (default): allowed is 4294967295 or more, that is --kv-sinks 2147483647 + "
     "--kv-protect 2147483647 + 1"},
};

TEST(Refused, WithTheWholeMessage) {
  for (const Refusal& refusal : kRefusals) {
    const auto policy = make_policy(refusal.policy, with(refusal.change));
    EXPECT_FALSE(policy) << "accepted, expected: " << refusal.message;
    EXPECT_EQ(policy.error(), refusal.message);
  }
}

TEST(Refused, UnknownNamesListTheKnownOnes) {
  for (const std::string name : {"", "Conf", "h20"}) {
    EXPECT_EQ(make_policy(name, {}).error(),
              "--kv-policy " + name + ": no such policy; allowed are " + joined_names());
  }
}

// The smallest value that each floor lets through.
TEST(Accepted, AtTheFloor) {
  EXPECT_TRUE(make_policy("window", with([](auto& p) { p.budget = 5; })));
  EXPECT_TRUE(make_policy("window", with([](auto& p) {
                            p.budget = 1;
                            p.sinks = 0;
                          })));
  EXPECT_TRUE(make_policy("conf", with([](auto& p) { p.budget = 74; })));
  EXPECT_TRUE(make_policy("conf", with([](auto& p) { p.high = p.low = 37; })));
  EXPECT_TRUE(make_policy("conf", with([](auto& p) {
                            p.high = p.low = 1;
                            p.sinks = 0;
                            p.protect = 0;
                          })));
  for (const double edge : {0.0, 1.0}) {
    EXPECT_TRUE(make_policy("conf", with([&](auto& p) {
                              p.tau = edge;
                              p.alpha = p.lambda = edge;
                            })));
  }
}

// Where a flag's default is the same for all policies, one given at it changes nothing.
TEST(Accepted, ConfFlagsAtTheirDefaultsWithOtherPolicies) {
  EXPECT_TRUE(make_policy("window", with([](auto& p) {
                            p.budget = 16;
                            p.tau = 0.7;
                            p.seed = 0;
                          })));
  EXPECT_TRUE(make_policy("none", with([](auto& p) { p.burst = 1; })));
}

}  // namespace
}  // namespace kvasir
