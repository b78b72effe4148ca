#include "eval/neighbours/residuals.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvasir::eval {
namespace {

// Two elements of K, one of V; tokens 0 and 1 are references, 2 and 3 are not.
const TokenVectors kVectors{4, 2, 1, {3, 0, 1, 0, 4, 1, 3, 4, 2, 0, 8, 0}};
const Parted kParted{{0, 1}, {2, 3}, {2, 2}};

TEST(Residuals, MeansAreOfWhatWasChosen) {
  const Chosen chosen{2, {0, 1, 1, -1}};
  EXPECT_EQ(mean_references(kVectors, chosen), (std::vector<float>{1.5F, 2, 1, 0, 4, 1}));
  EXPECT_EQ(channel_means(kVectors, 2), (std::vector<float>{1.5F, 4, 1, 1.5F, 4, 1}));
}

TEST(Residuals, RatiosAreMeansOverTokens) {
  const std::vector<float> means = {0, 0, 1, 0, 4, 0};
  // Token 2, (3, 4 | 2): left (3, 4 | 1). Token 3, (0, 8 | 0): left (0, 4 | 0), V has no length.
  const ByHalf ratio = length_ratio(kVectors, kParted, means);
  EXPECT_NEAR(ratio.k, (1 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(ratio.v, 0.5, 1e-12);
  EXPECT_NEAR(ratio.whole, (std::sqrt(26.0 / 29) + 0.5) / 2, 1e-12);
}

TEST(Residuals, ShareOfKIsOfSumsOfSquares) {
  EXPECT_NEAR(k_share_of_lengths(kVectors, kParted), (25.0 + 64) / (29 + 64), 1e-12);
  // 2 - 0: (0, 4 | 1); 2 - 1: (3, 0 | 1); 3 - 1: (0, 4 | -1).
  const Chosen chosen{2, {0, 1, 1, -1}};
  EXPECT_NEAR(k_share_of_distances(kVectors, kParted, chosen), 41.0 / 44, 1e-12);
}

}  // namespace
}  // namespace kvasir::eval
