// CONF-KV's budget rule and ranker: values worked out by hand, and properties over random steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "policy/policy.h"

namespace kvasir {
namespace {

Policy conf(const PolicyParams& params = {}) {
  auto policy = make_policy("conf", params);
  EXPECT_TRUE(policy) << policy.error();
  return std::move(policy.value());
}

PolicyParams ranking(double alpha, double lambda) {
  PolicyParams params;
  params.alpha = alpha;
  params.lambda = lambda;
  return params;
}

int32_t budget_at(const Policy& policy, double c) {
  Confidence seen;
  seen.c = c;
  seen.valid = c > 0;
  return policy.budget->tokens({true, &seen}, {});
}

std::vector<float> scores_of(const Policy& policy, const std::vector<int32_t>& positions,
                             const std::vector<float>& state) {
  std::vector<float> scores(positions.size(), -1.0F);
  std::vector<int32_t> scratch(positions.size());
  policy.ranker->score({positions, state, scratch}, scores);
  return scores;
}

void observe(const Policy& policy, const std::vector<float>& mass, int32_t n_fresh, bool prompt,
             std::vector<float>& state) {
  Mass seen;
  seen.kind = prompt ? Mass::Kind::kObserved : Mass::Kind::kStep;
  seen.mass = mass;
  seen.n_fresh = n_fresh;
  policy.ranker->observe(seen, state);
}

/// What a cache does with scores: candidates in the order in which they are evicted.
std::vector<size_t> eviction_order(const std::vector<float>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  return order;
}

TEST(ConfBudget, Defaults) {
  const Policy policy = conf();
  EXPECT_EQ(budget_at(policy, 0.9), 128);
  EXPECT_EQ(budget_at(policy, 0.5), 256);
  EXPECT_EQ(policy.sinks, 4);
  EXPECT_EQ(policy.protect, 32);
}

TEST(ConfBudget, ThresholdIncludesTau) {
  const Policy policy = conf();
  EXPECT_EQ(budget_at(policy, 0.7), 128);
  EXPECT_EQ(budget_at(policy, std::nextafter(0.7, 0.0)), 256);
  EXPECT_EQ(budget_at(policy, 1.0), 128);
}

TEST(ConfBudget, InvalidOrUnseenLogitsAreUnsure) {
  const Policy policy = conf();
  EXPECT_EQ(budget_at(policy, 0.0), 256);
  EXPECT_EQ(policy.budget->tokens({false, nullptr}, {}), 256);
  EXPECT_EQ(policy.budget->tokens({true, nullptr}, {}), 256);
}

TEST(ConfBudget, OneBudgetSetsBothAndExplicitOnesWin) {
  PolicyParams params;
  params.budget = 513;
  EXPECT_EQ(budget_at(conf(params), 1), 256);
  EXPECT_EQ(budget_at(conf(params), 0.2), 513);
  params.high = 100;
  EXPECT_EQ(budget_at(conf(params), 1), 100);
  EXPECT_EQ(budget_at(conf(params), 0.2), 513);
  params.low = 300;
  EXPECT_EQ(budget_at(conf(params), 1), 100);
  EXPECT_EQ(budget_at(conf(params), 0.2), 300);
  params.high = 0;
  EXPECT_EQ(budget_at(conf(params), 1), 256);
}

TEST(ConfBudget, EveryLayerAlike) {
  const Policy policy = conf();
  for (int32_t layer = 0; layer < 30; ++layer) {
    EXPECT_EQ(policy.budget->tokens({}, {layer, 30, 0}), 256);
  }
}

TEST(ConfNeeds, ConfidenceAlwaysMassUnlessAlphaIsZero) {
  PolicyParams params;
  EXPECT_TRUE(conf(params).needs().confidence);
  EXPECT_TRUE(conf(params).needs().step_mass);
  EXPECT_EQ(conf(params).needs().observed_queries, 32);
  params.high = params.low = 128;
  EXPECT_TRUE(conf(params).needs().confidence);
  params.alpha = 0;
  EXPECT_TRUE(conf(params).needs().confidence);
  EXPECT_FALSE(conf(params).needs().step_mass);
  EXPECT_EQ(conf(params).needs().observed_queries, 0);
}

// alpha .65: min-max of the state (.1, .5, .3) is (0, 1, .5), of the positions (10, 14, 20)
// (0, .4, 1): scores 0, .65 + .35 * .4 = .79, .325 + .35 = .675.
TEST(ConfRanker, ScoresByHand) {
  const auto scores = scores_of(conf(), {10, 14, 20}, {0.1F, 0.5F, 0.3F});
  EXPECT_NEAR(scores[0], 0.0, 1e-6);
  EXPECT_NEAR(scores[1], 0.79, 1e-6);
  EXPECT_NEAR(scores[2], 0.675, 1e-6);
}

TEST(ConfRanker, EqualStatesLeaveRecencyAlone) {
  const auto scores = scores_of(conf(), {0, 1, 4}, {0.25F, 0.25F, 0.25F});
  EXPECT_FLOAT_EQ(scores[0], 0.0F);
  EXPECT_FLOAT_EQ(scores[1], 0.35F * 0.25F);
  EXPECT_FLOAT_EQ(scores[2], 0.35F);
}

TEST(ConfRanker, OneCandidateAndNone) {
  EXPECT_EQ(scores_of(conf(), {77}, {0.5F}), std::vector<float>{0.0F});
  EXPECT_TRUE(scores_of(conf(), {}, {}).empty());
}

TEST(ConfRanker, TiesKeepTheNewer) {
  // With attention alone and equal states all scores are equal: the oldest goes first.
  const auto scores = scores_of(conf(ranking(1, 0.9)), {3, 5, 8, 9}, {0.2F, 0.2F, 0.2F, 0.2F});
  EXPECT_EQ(eviction_order(scores), (std::vector<size_t>{0, 1, 2, 3}));
  const auto pair = scores_of(conf(ranking(1, 0.9)), {3, 5, 8}, {0.1F, 0.7F, 0.1F});
  EXPECT_EQ(eviction_order(pair), (std::vector<size_t>{0, 2, 1}));
}

// Positions that floats cannot tell apart still leave in the order of age.
TEST(ConfRanker, HugePositionsKeepTheOrderOfAge) {
  std::vector<int32_t> positions = {0};
  for (int32_t p = 2000000000; p < 2000000040; ++p) positions.push_back(p);
  const auto scores = scores_of(conf(ranking(0, 0.9)), positions, {});
  std::vector<size_t> oldest_first(positions.size());
  std::iota(oldest_first.begin(), oldest_first.end(), size_t{0});
  EXPECT_EQ(eviction_order(scores), oldest_first);
}

TEST(ConfRanker, EmaByHand) {
  const Policy policy = conf(ranking(0.65, 0.75));
  std::vector<float> state = {0.8F, 0.4F, 0.0F};
  observe(policy, {0.0F, 0.8F, 0.2F}, 1, false, state);
  EXPECT_FLOAT_EQ(state[0], 0.6F);
  EXPECT_FLOAT_EQ(state[1], 0.5F);
  EXPECT_FLOAT_EQ(state[2], 0.05F);  // fresh: its EMA starts at 0
}

TEST(ConfRanker, AfterAPromptFreshTokensStartFromTheirMass) {
  const Policy policy = conf(ranking(0.65, 0.75));
  std::vector<float> state = {0.8F, 0.0F, 0.0F};
  observe(policy, {0.4F, 0.5F, 0.1F}, 2, true, state);
  EXPECT_FLOAT_EQ(state[0], 0.7F);
  EXPECT_FLOAT_EQ(state[1], 0.5F);
  EXPECT_FLOAT_EQ(state[2], 0.1F);
}

TEST(ConfRanker, NanMassDoesNotStay) {
  const Policy policy = conf();
  std::vector<float> state = {0.5F, 0.5F, 0.25F};
  const std::vector<float> mass = {std::numeric_limits<float>::quiet_NaN(),
                                   std::numeric_limits<float>::infinity(), 0.25F};
  observe(policy, mass, 0, false, state);
  EXPECT_FLOAT_EQ(state[0], 0.45F);
  EXPECT_FLOAT_EQ(state[1], 0.45F);
  for (const float score : scores_of(policy, {1, 2, 3}, state)) EXPECT_TRUE(std::isfinite(score));
}

/// A layer without rows: positions and states under a budget, as the cache keeps them.
class Layer {
 public:
  Layer(Policy policy, int32_t budget) : policy_(std::move(policy)), budget_(budget) {}

  /// One decode step: a token arrives, mass is observed (where needed), the lowest are evicted.
  void step(int32_t position, const std::vector<float>& mass_by_position) {
    positions_.push_back(position);
    state_.push_back(0);
    if (policy_.needs().step_mass) {
      std::vector<float> mass;
      for (const int32_t p : positions_) mass.push_back(mass_by_position[static_cast<size_t>(p)]);
      observe(policy_, mass, 1, false, state_);
    }
    while (static_cast<int32_t>(positions_.size()) > budget_) evict_one();
  }
  const std::vector<int32_t>& positions() const { return positions_; }

 private:
  void evict_one() {
    const auto first = static_cast<size_t>(policy_.sinks);
    const size_t n = positions_.size() - first - static_cast<size_t>(policy_.protect);
    std::vector<float> scores(n);
    std::span<const float> state;
    if (policy_.needs().step_mass) state = std::span(state_).subspan(first, n);
    policy_.ranker->score({std::span(positions_).subspan(first, n), state, {}}, scores);
    const auto victim = static_cast<ptrdiff_t>(first + eviction_order(scores).front());
    positions_.erase(positions_.begin() + victim);
    state_.erase(state_.begin() + victim);
  }

  Policy policy_;
  int32_t budget_;
  std::vector<int32_t> positions_;
  std::vector<float> state_;
};

std::vector<float> random_mass(std::mt19937& random, size_t n) {
  std::exponential_distribution<float> draw(1.0F);
  std::vector<float> mass(n);
  float sum = 0;
  for (float& m : mass) sum += m = draw(random);
  for (float& m : mass) m /= sum;
  return mass;
}

// Invariant 8, first half: with N_high = N_low, alpha = 0 keeps what the window policy keeps.
TEST(ConfProperty, AlphaZeroEqualsWindow) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    PolicyParams params;
    params.sinks = std::uniform_int_distribution(0, 6)(random);
    const int32_t protect = std::uniform_int_distribution(0, 9)(random);
    params.protect = protect;
    params.alpha = 0;
    const int32_t budget = params.sinks + protect + std::uniform_int_distribution(1, 20)(random);
    params.high = params.low = budget;
    PolicyParams window;
    window.sinks = params.sinks;
    window.budget = budget;
    auto other = make_policy("window", window);
    ASSERT_TRUE(other) << other.error();
    Layer a(conf(params), budget), b(std::move(other.value()), budget);
    for (int32_t position = 0; position < 80; ++position) {
      const auto mass = random_mass(random, 80);
      a.step(position, mass);
      b.step(position, mass);
      ASSERT_EQ(a.positions(), b.positions()) << "round " << round << " position " << position;
    }
  }
}

// Invariant 8, second half: alpha = 1, lambda -> 1 ranks as the mass summed over time (H2O, mean
// over heads). After T steps each mass has a weight in [lambda^T, 1] of (1 - lambda), and a float
// state adds T roundings: sums that differ by more than T * sum * (1 - lambda + 2^-24) must come in
// the same order. Tokens arrive and leave at random; evicted ones take their sums with them.
TEST(ConfProperty, AlphaOneLambdaToOneRanksAsCumulativeMass) {
  constexpr double kLambda = 1 - 1e-6;
  constexpr int32_t kSteps = 60;
  const Policy policy = conf(ranking(1, kLambda));
  int64_t compared = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<int32_t> positions;
    std::vector<float> state;
    std::vector<double> sums;
    for (int32_t step = 0; step < kSteps; ++step) {
      positions.push_back(step);
      state.push_back(0);
      sums.push_back(0);
      const auto mass = random_mass(random, positions.size());
      observe(policy, mass, 1, false, state);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += mass[i];

      const auto scores = scores_of(policy, positions, state);
      const double bound = kSteps * kSteps * (1 - kLambda + std::ldexp(1.0, -24));
      for (size_t i = 0; i < sums.size(); ++i) {
        for (size_t j = 0; j < sums.size(); ++j) {
          if (sums[i] <= sums[j] + bound) continue;
          ASSERT_GT(scores[i], scores[j])
              << "seed " << seed << " step " << step << ": sums " << sums[i] << " and " << sums[j];
          ++compared;
        }
      }
      if (positions.size() > 25) {
        const auto victim = std::uniform_int_distribution<ptrdiff_t>(
            0, static_cast<ptrdiff_t>(positions.size()) - 1)(random);
        positions.erase(positions.begin() + victim);
        state.erase(state.begin() + victim);
        sums.erase(sums.begin() + victim);
      }
    }
  }
  EXPECT_GT(compared, 200000);
}

// With a short memory the order does differ from that of the sums: the property above has teeth.
TEST(ConfProperty, ShortMemoryForgets) {
  const Policy policy = conf(ranking(1, 0.5));
  std::vector<float> state = {0, 0};
  observe(policy, {1.0F, 0.0F}, 2, false, state);
  for (int i = 0; i < 3; ++i) {
    observe(policy, {0.0F, 0.2F}, 0, false, state);
  }
  const auto scores = scores_of(policy, {0, 1}, state);
  EXPECT_LT(scores[0], scores[1]);  // although the sums are 1 and 0.6
}

// Whatever the masses, scores are finite and in [0, 1], a rounding aside.
TEST(ConfProperty, ScoresAreFiniteAndBounded) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int round = 0; round < 200; ++round) {
    const Policy policy = conf(ranking(unit(random), unit(random)));
    const auto n = std::uniform_int_distribution<size_t>(1, 70)(random);
    std::vector<int32_t> positions(n);
    int32_t position = 0;
    for (int32_t& p : positions) p = position += std::uniform_int_distribution(1, 5000)(random);
    std::vector<float> state(n, 0);
    observe(policy, random_mass(random, n), static_cast<int32_t>(n), round % 2 == 0, state);
    for (const float score : scores_of(policy, positions, state)) {
      EXPECT_TRUE(score >= 0 && score <= 1.000001F) << score;
    }
  }
}

}  // namespace
}  // namespace kvasir
