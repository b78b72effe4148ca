#include "eval/metrics/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace kvasir::eval {
namespace {

// Worked out from Wilson's formula with 28 digits of decimal arithmetic.
TEST(Wilson, HasKnownValues) {
  const Interval eight = wilson_interval(8, 10);
  EXPECT_DOUBLE_EQ(eight.mean, 0.8);
  EXPECT_NEAR(eight.low, 0.490162, 1e-6);
  EXPECT_NEAR(eight.high, 0.943318, 1e-6);
  const Interval half = wilson_interval(50, 100);
  EXPECT_NEAR(half.low, 0.403832, 1e-6);
  EXPECT_NEAR(half.high, 0.596168, 1e-6);
}

TEST(Wilson, StaysInsideAtTheEnds) {
  const Interval none = wilson_interval(0, 10);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.277533, 1e-6);
  const Interval all = wilson_interval(10, 10);
  EXPECT_EQ(all.high, 1);
  EXPECT_NEAR(all.low, 0.722467, 1e-6);
  for (int64_t count = 1; count < 300; ++count) {
    EXPECT_EQ(wilson_interval(0, count).low, 0) << count;
    EXPECT_EQ(wilson_interval(count, count).high, 1) << count;
  }
}

std::vector<double> spread_scores(size_t count) {
  std::mt19937_64 random(3);
  std::vector<double> scores(count);
  for (double& score : scores) score = static_cast<double>(random() >> 11U) / 9007199254740992.0;
  return scores;
}

TEST(Bootstrap, IsNearTheNormalInterval) {
  const auto scores = spread_scores(400);
  const Interval interval = bootstrap_interval(scores, 1);
  double variance = 0;
  for (const double score : scores) variance += std::pow(score - interval.mean, 2) / 400;
  const double half = 1.96 * std::sqrt(variance / 400);
  EXPECT_NEAR(interval.low, interval.mean - half, 0.15 * half);
  EXPECT_NEAR(interval.high, interval.mean + half, 0.15 * half);
}

TEST(Bootstrap, DependsOnTheSeedAlone) {
  const auto scores = spread_scores(50);
  const Interval first = bootstrap_interval(scores, 7);
  const Interval again = bootstrap_interval(scores, 7);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
  EXPECT_NE(first.low, bootstrap_interval(scores, 8).low);
}

// The same draws by another implementation of the generator, written in Python.
TEST(Bootstrap, IsTheSameOnEveryMachine) {
  const Interval interval = bootstrap_interval(std::vector<double>{0, 0.25, 0.5, 0.75, 1, 0.3}, 42);
  EXPECT_NEAR(interval.mean, 2.8 / 6, 1e-12);
  EXPECT_NEAR(interval.low, 0.21666666666666667, 1e-12);
  EXPECT_NEAR(interval.high, 0.75, 1e-12);
}

TEST(MeanInterval, TakesWilsonForZerosAndOnes) {
  const Interval right = mean_interval(std::vector<double>{1, 1, 1, 1, 0, 1, 1, 1, 1, 0}, 1);
  EXPECT_DOUBLE_EQ(right.low, wilson_interval(8, 10).low);
  const std::vector<double> parts = {1, 1, 0, 0.5};
  const Interval mixed = mean_interval(parts, 1);
  EXPECT_DOUBLE_EQ(mixed.low, bootstrap_interval(parts, 1).low);
  EXPECT_DOUBLE_EQ(mixed.mean, 0.625);
}

}  // namespace
}  // namespace kvasir::eval
