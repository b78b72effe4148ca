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

// Values of an autoregression with coefficient 0.8 around 5: the mean of n of them has the standard
// error 1 / (1 - 0.8) / sqrt(n).
std::vector<double> chain(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11U) * 0x1p-53; };
  std::vector<double> values(n);
  double x = 0;
  for (double& value : values) {
    double noise = -6;  // twelve uniform numbers less six: mean 0, variance 1
    for (int i = 0; i < 12; ++i) noise += uniform();
    x = 0.8 * x + noise;
    value = 5 + x;
  }
  return values;
}

TEST(BlockBootstrap, IsAsWideAsNeighboursThatAreAlikeAskFor) {
  constexpr size_t kValues = 4096;
  const auto values = chain(kValues, 3);
  const Interval blocks = block_bootstrap_interval(values, 1);
  const double width = 2 * 1.96 * 5 / std::sqrt(static_cast<double>(kValues));
  // A little less than all of it: a run of 32 cuts what its ends have in common with the next.
  EXPECT_GT(blocks.high - blocks.low, 0.75 * width);
  EXPECT_LT(blocks.high - blocks.low, 1.15 * width);
  const Interval single = bootstrap_interval(values, 1);
  EXPECT_LT(single.high - single.low, 0.5 * width) << "single values know nothing of neighbours";
}

TEST(BlockBootstrap, CoversTheMeanAsOftenAsItSays) {
  int covered = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Interval interval = block_bootstrap_interval(chain(1024, seed), seed);
    covered += interval.low <= 5 && 5 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 174);  // of 200; 95 % are 190, and runs of 32 cost a few
  EXPECT_LE(covered, 200);
}

TEST(BlockBootstrap, FewValuesAndEqualOnes) {
  const Interval one = block_bootstrap_interval(std::vector<double>{0.5}, 1);
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_EQ(one.low, 0.5);
  EXPECT_EQ(one.high, 0.5);
  const Interval equal = block_bootstrap_interval(std::vector<double>(100, 0.25), 1);
  EXPECT_EQ(equal.low, 0.25);
  EXPECT_EQ(equal.high, 0.25);
  const auto values = chain(100, 1);
  EXPECT_EQ(block_bootstrap_interval(values, 7).low, block_bootstrap_interval(values, 7).low);
  EXPECT_NE(block_bootstrap_interval(values, 7).low, block_bootstrap_interval(values, 8).low);
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
