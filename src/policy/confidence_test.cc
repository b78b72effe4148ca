#include "policy/confidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvasir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The textbook, with logarithms of probabilities in long double; finite entries or -inf.
Confidence by_definition(const std::vector<float>& logits) {
  long double largest = -INFINITY, sum = 0, entropy = 0, p1 = 0, p2 = 0;
  for (const float l : logits) largest = std::max(largest, static_cast<long double>(l));
  for (const float l : logits) sum += std::exp(l - largest);
  for (const float l : logits) {
    const long double p = std::exp(l - largest) / sum;
    if (p > 0) entropy -= p * std::log(p);
    if (p > p1) {
      p2 = p1;
      p1 = p;
    } else if (p > p2) {
      p2 = p;
    }
  }
  const long double margin = std::log(p1) - std::log(p2);
  const auto size = static_cast<long double>(logits.size());
  const long double c =
      0.4L * (1 - entropy / std::log(size)) + 0.3L / (1 + std::exp(-margin)) + 0.3L * p1;
  return {static_cast<double>(c), static_cast<double>(entropy), static_cast<double>(margin),
          static_cast<double>(p1), true};
}

Confidence confidence_of(const KvKernels& kernels, const std::vector<float>& logits) {
  const auto n = static_cast<int32_t>(logits.size());
  return kvasir::confidence_of(kernels.logit_sums(logits.data(), n), n);
}

TEST(ConfidenceFromSums, OneHotIsExactlyOne) {
  const auto seen = kvasir::confidence_of({true, 5, -kInf, 3, 1, 0}, 1000);
  EXPECT_TRUE(seen.valid);
  EXPECT_EQ(seen.c, 1.0);
  EXPECT_EQ(seen.entropy, 0.0);
  EXPECT_EQ(seen.p1, 1.0);
  EXPECT_EQ(seen.margin, std::numeric_limits<double>::infinity());
}

TEST(ConfidenceFromSums, UniformIsTheLeastOfItsVocabulary) {
  for (const int32_t v : {2, 3, 50257, 262144}) {
    const auto seen = kvasir::confidence_of({true, 1, 1, 0, static_cast<double>(v), 0}, v);
    EXPECT_DOUBLE_EQ(seen.c, 0.15 + 0.3 / v) << v;
    EXPECT_DOUBLE_EQ(seen.entropy, std::log(v)) << v;
    EXPECT_EQ(seen.margin, 0.0) << v;
    EXPECT_DOUBLE_EQ(seen.p1, 1.0 / v) << v;
  }
}

// Rounded sums may put H above ln V or below 0; c and H stay in their ranges.
TEST(ConfidenceFromSums, RoundingDoesNotLeaveTheRanges) {
  const auto flat = kvasir::confidence_of({true, 0, 0, 0, 100, -1e-3}, 100);
  EXPECT_DOUBLE_EQ(flat.c, 0.15 + 0.3 / 100);
  const auto sharp = kvasir::confidence_of({true, 0, -80, 0, 1 - 1e-9, 1e-9}, 100);
  EXPECT_LE(sharp.c, 1.0);
  EXPECT_LE(sharp.p1, 1.0);
  EXPECT_EQ(sharp.entropy, 0.0);
}

TEST(ConfidenceFromSums, AVocabularyOfOneIsSure) {
  const auto seen = kvasir::confidence_of({true, -3, -kInf, 0, 1, 0}, 1);
  EXPECT_TRUE(seen.valid);
  EXPECT_EQ(seen.c, 1.0);
  EXPECT_EQ(seen.entropy, 0.0);
}

TEST(ConfidenceFromSums, InvalidSumsGiveZero) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const KvKernels::LogitSums invalid[] = {{false, 1, 0, 0, 2, -1},
                                          {true, kInf, 0, 0, 1, 0},
                                          {true, 1, 0, 0, nan, 0},
                                          {true, 1, 0, 0, 1, nan}};
  for (const auto& sums : invalid) {
    for (const int32_t v : {1, 100}) {
      const auto seen = kvasir::confidence_of(sums, v);
      EXPECT_FALSE(seen.valid);
      EXPECT_EQ(seen.c, 0.0);
    }
  }
}

/// Every kernel table of this CPU against values worked out by hand.
class ConfidenceOfLogits : public testing::TestWithParam<const KvKernels*> {};

TEST_P(ConfidenceOfLogits, OneHotIsExactlyOne) {
  std::vector<float> logits(777, -kInf);
  logits[700] = 2;
  EXPECT_EQ(confidence_of(*GetParam(), logits).c, 1.0);
  std::fill(logits.begin(), logits.end(), 0.0F);
  logits[0] = 1000;
  EXPECT_EQ(confidence_of(*GetParam(), logits).c, 1.0);
}

TEST_P(ConfidenceOfLogits, Uniform) {
  for (const size_t v : {2U, 33U, 49152U}) {
    const auto seen = confidence_of(*GetParam(), std::vector<float>(v, -7.5F));
    EXPECT_NEAR(seen.c, 0.15 + 0.3 / static_cast<double>(v), 1e-6) << v;
  }
}

// Two equal peaks in 1000: H = ln 2, margin 0, p1 = 1/2:
// c = 0.4 (1 - ln 2 / ln 1000) + 0.15 + 0.15 = 0.659863
TEST_P(ConfidenceOfLogits, TwoEqualPeaks) {
  std::vector<float> logits(1000, -kInf);
  logits[3] = logits[998] = -12;
  const auto seen = confidence_of(*GetParam(), logits);
  EXPECT_NEAR(seen.c, 0.65986267, 1e-6);
  EXPECT_NEAR(seen.entropy, 0.69314718, 2e-6);
  EXPECT_EQ(seen.margin, 0.0);
  EXPECT_NEAR(seen.p1, 0.5, 1e-6);
}

// Logits ln 6, ln 3, ln 1: p = .6, .3, .1; H = .897946 nats, ln 3 = 1.098612, p1/(p1+p2) = 2/3:
// c = 0.4 (1 - .817345) + 0.3 * 2/3 + 0.3 * .6 = .453062
TEST_P(ConfidenceOfLogits, ThreeByHand) {
  const auto seen = confidence_of(*GetParam(), {std::log(3.F), std::log(6.F), 0});
  EXPECT_NEAR(seen.c, 0.453062, 1e-6);
  EXPECT_NEAR(seen.entropy, 0.897946, 1e-6);
  EXPECT_NEAR(seen.margin, 0.693147, 1e-6);
  EXPECT_NEAR(seen.p1, 0.6, 1e-6);
}

TEST_P(ConfidenceOfLogits, MinusInfinityIsProbabilityZero) {
  const auto seen = confidence_of(*GetParam(), {-kInf, std::log(3.F), -kInf, std::log(6.F), 0});
  EXPECT_NEAR(seen.entropy, 0.897946, 1e-6);
  EXPECT_NEAR(seen.c, 0.4 * (1 - 0.897946 / std::log(5)) + 0.2 + 0.18, 1e-6);
}

TEST_P(ConfidenceOfLogits, NanOrNothingFiniteIsInvalid) {
  for (const size_t n : {1U, 5U, 64U, 1001U}) {
    EXPECT_FALSE(confidence_of(*GetParam(), std::vector<float>(n, -kInf)).valid) << n;
    EXPECT_EQ(confidence_of(*GetParam(), std::vector<float>(n, -kInf)).c, 0.0) << n;
    for (const size_t at : {size_t{0}, n / 2, n - 1}) {
      std::vector<float> logits(n, 1.0F);
      logits[at] = kNan;
      EXPECT_FALSE(confidence_of(*GetParam(), logits).valid) << n << " at " << at;
      EXPECT_EQ(confidence_of(*GetParam(), logits).c, 0.0) << n << " at " << at;
    }
  }
}

TEST_P(ConfidenceOfLogits, OneEntry) { EXPECT_EQ(confidence_of(*GetParam(), {-4}).c, 1.0); }

TEST_P(ConfidenceOfLogits, MatchesTheDefinitionAndIgnoresShifts) {
  std::mt19937 random(20240607);
  for (const size_t v : {2U, 7U, 31U, 129U, 5000U}) {
    for (const float spread : {0.1F, 2.0F, 15.0F}) {
      std::normal_distribution<float> normal(0, spread);
      std::vector<float> logits(v);
      // Multiples of 1/64 so that adding 1000 is exact.
      for (float& l : logits) l = std::round(normal(random) * 64) / 64;
      const auto expected = by_definition(logits);
      const auto seen = confidence_of(*GetParam(), logits);
      EXPECT_NEAR(seen.c, expected.c, 2e-6) << v << " spread " << spread;
      EXPECT_NEAR(seen.entropy, expected.entropy, 3e-5) << v << " spread " << spread;
      EXPECT_NEAR(seen.margin, expected.margin, 1e-9) << v << " spread " << spread;
      EXPECT_NEAR(seen.p1, expected.p1, 1e-6) << v << " spread " << spread;
      EXPECT_GE(seen.c, 0.15);
      EXPECT_LE(seen.c, 1.0);
      for (float& l : logits) l += 1000;
      EXPECT_NEAR(confidence_of(*GetParam(), logits).c, seen.c, 1e-12) << v << " spread " << spread;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, ConfidenceOfLogits,
                         testing::ValuesIn(supported_kernels().begin(), supported_kernels().end()),
                         [](const testing::TestParamInfo<const KvKernels*>& info) {
                           return std::string(info.param->name);
                         });

}  // namespace
}  // namespace kvasir
