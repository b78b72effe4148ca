#include "eval/premise/correlation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kvasir::eval {
namespace {

TEST(Correlation, OfKnownColumns) {
  // Anscombe's first quartet: r = 0.81642 is published; Spearman's 0.81818 by hand.
  const std::vector<double> x = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5};
  const std::vector<double> y = {8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68};
  const Correlation found = correlate(x, y);
  EXPECT_NEAR(found.pearson, 0.81642, 1e-5);
  EXPECT_NEAR(found.spearman, 0.81818, 1e-5);
  EXPECT_NEAR(found.low, 0.42439, 1e-4);
  EXPECT_NEAR(found.high, 0.95069, 1e-4);
}

TEST(Correlation, OfLinesAndConstants) {
  const std::vector<double> x = {1, 2, 3, 4}, down = {8, 6, 4, 2}, flat = {5, 5, 5, 5};
  EXPECT_NEAR(correlate(x, down).pearson, -1, 1e-12);
  EXPECT_NEAR(correlate(x, down).spearman, -1, 1e-12);
  EXPECT_TRUE(std::isnan(correlate(x, flat).pearson));
  EXPECT_TRUE(std::isnan(correlate(std::vector<double>{1, 2}, std::vector<double>{1, 2}).low));
}

TEST(Correlation, RanksShareTies) {
  const std::vector<double> x = {1, 2, 2, 3}, y = {1, 3, 2, 4};
  EXPECT_NEAR(correlate(x, y).spearman, 0.94868, 1e-5);  // 4.5 / sqrt(4.5 x 5)
}

}  // namespace
}  // namespace kvasir::eval
