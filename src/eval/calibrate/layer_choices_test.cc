// A layer's choice from its attention against omnikv's own, from its scores.
#include "eval/calibrate/layer_choices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/kernels.h"

namespace kvasir::eval {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

TEST(BestCandidates, AreWhatOmniKvChooses) {
  constexpr int32_t kHeads = 5, kRow = 512, kFirst = 4, kN = 400, kBest = 60;
  std::mt19937 generator(7);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(z(kHeads) * kRow), probabilities(logits.size());
  for (int32_t h = 0; h < kHeads; ++h) {
    double sum = 0;
    for (int32_t i = 0; i < kRow; ++i) {  // sinks that draw most, more in some heads
      const float logit = normal(generator) + (i < kFirst ? 4.0F * static_cast<float>(h) : 0.0F);
      logits[z(h * kRow + i)] = logit;
      sum += std::exp(static_cast<double>(logit));
    }
    for (int32_t i = h * kRow; i < (h + 1) * kRow; ++i) {
      probabilities[z(i)] = static_cast<float>(std::exp(static_cast<double>(logits[z(i)])) / sum);
    }
  }
  SelectParams params;
  params.keep = Keep{kBest, 0};
  const auto omnikv = make_selector("omnikv", params);
  ASSERT_TRUE(omnikv) << omnikv.error();
  SelectInput input;
  input.n = kN;
  input.n_heads = kHeads;
  input.logits = logits.data() + kFirst;
  input.logits_head = kRow;
  SerialFor parallel;
  SelectScratch scratch;
  std::vector<int32_t> chosen;
  omnikv.value()->choose(input, best_kernels(), parallel, scratch, chosen);
  EXPECT_EQ(best_candidates(probabilities, kRow, kFirst, kN, kBest), chosen);
}

TEST(BestCandidates, EachHeadCountsOverTheCandidatesAlone) {
  const std::vector<float> probabilities = {.99F, .004F, .005F, .001F,  //
                                            .10F, .300F, .300F, .300F,  //
                                            1.0F, .000F, .000F, .000F};
  EXPECT_EQ(best_candidates(probabilities, 4, 1, 3, 1), (std::vector<int32_t>{1}));
  EXPECT_EQ(best_candidates(probabilities, 4, 1, 3, 2), (std::vector<int32_t>{0, 1}));
}

TEST(ChoicePlan, PointsLieEvenlyOverTheSecondHalf) {
  ChoicePlan plan;
  plan.tokens.assign(100, 1);
  plan.n_points = 4;
  EXPECT_EQ(plan.position(0), 61);
  EXPECT_EQ(plan.position(1), 74);
  EXPECT_EQ(plan.position(2), 86);
  EXPECT_EQ(plan.position(3), 99);
}

}  // namespace
}  // namespace kvasir::eval
