#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kvasir::eval {
namespace {

TEST(Quantile, LiesBetweenNeighbours) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{7}), 7);
}

TEST(Summary, FindsTheTwoBestAndTheNorm) {
  const std::vector<float> row = {1, 3, 2.5F, -1};
  const RowSummary summary = summarize(row);
  EXPECT_EQ(summary.top, 1);
  EXPECT_EQ(summary.second, 2);
  EXPECT_DOUBLE_EQ(summary.margin, 0.5);
  EXPECT_NEAR(summary.log_z, std::log(std::exp(1) + std::exp(3) + std::exp(2.5) + std::exp(-1)),
              1e-6);
  EXPECT_TRUE(summary.finite);
}

TEST(Summary, KeepsTheFirstOfEqualsAndSeesNaN) {
  const RowSummary equal = summarize(std::vector<float>{2, 5, 5, 1});
  EXPECT_EQ(equal.top, 1);
  EXPECT_EQ(equal.second, 2);
  EXPECT_EQ(equal.margin, 0);
  EXPECT_FALSE(summarize(std::vector<float>{1, NAN, 2}).finite);
  EXPECT_FALSE(summarize(std::vector<float>{1, -INFINITY}).finite);
}

double kl(const std::vector<float>& a, const std::vector<float>& b) {
  return kl_divergence(a, summarize(a), b, summarize(b));
}

TEST(Kl, OfTwoOutcomes) {
  // softmax of {log p, log (1 - p)} is {p, 1 - p}.
  const auto row = [](double p) {
    return std::vector<float>{static_cast<float>(std::log(p)), static_cast<float>(std::log(1 - p))};
  };
  const double expected = 0.25 * std::log(0.25 / 0.5) + 0.75 * std::log(0.75 / 0.5);
  EXPECT_NEAR(kl(row(0.25), row(0.5)), expected, 1e-7);
}

TEST(Kl, IgnoresAShiftAndResolvesRounding) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> a(50'000);
  for (float& x : a) x = normal(random);
  std::vector<float> shifted = a;
  for (float& x : shifted) x += 8;
  EXPECT_NEAR(kl(a, shifted), 0, 1e-8);

  // Independent errors e of the logits: KL is half their variance under a.
  constexpr double kError = 1e-3;
  std::vector<float> near = a;
  std::normal_distribution<float> error(0, static_cast<float>(kError));
  for (float& x : near) x += error(random);
  EXPECT_NEAR(kl(a, near) / (kError * kError / 2), 1, 0.1);
}

TEST(Divergence, AddsUpRows) {
  const std::vector<float> a = {0, 1, 0};
  const std::vector<float> same = {0, 2, 0};
  const std::vector<float> other = {1.25F, 1, 0};
  Divergence divergence;
  divergence.add(a, summarize(a), same, summarize(same), 1);
  EXPECT_EQ(divergence.widest_flip(), 0);
  divergence.add(a, summarize(a), other, summarize(other), 0);
  EXPECT_EQ(divergence.count(), 2U);
  EXPECT_DOUBLE_EQ(divergence.same_top(), 0.5);
  EXPECT_DOUBLE_EQ(divergence.widest_flip(), 1);  // a is sure by 1, other by 0.25
  EXPECT_DOUBLE_EQ(divergence.kl_mean(), (kl(a, same) + kl(a, other)) / 2);
  const double log_z = std::log(std::exp(1) + 2);
  EXPECT_NEAR(divergence.perplexity_a(), std::exp((log_z - 1 + log_z) / 2), 1e-6);
  EXPECT_TRUE(divergence.finite());
}

}  // namespace
}  // namespace kvasir::eval
