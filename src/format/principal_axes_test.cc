// principal_axes: axes of rows that were made from known ones.
#include "format/principal_axes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kvasir {
namespace {

double dot(const float* a, const float* b, int32_t n) {
  double sum = 0;
  for (int32_t d = 0; d < n; ++d) sum += double{a[d]} * double{b[d]};
  return sum;
}

TEST(PrincipalAxes, FindWhatRowsVaryAlong) {
  constexpr int32_t kWidth = 12;
  constexpr int32_t kRows = 400;
  constexpr int32_t kStride = 15;
  // Two axes, neither along a channel, and a mean far from 0.
  std::vector<float> a(kWidth), b(kWidth);
  for (int32_t d = 0; d < kWidth; ++d) {
    a[static_cast<size_t>(d)] = (d % 2 == 0 ? 1.0F : -1.0F) / std::sqrt(12.0F);
    b[static_cast<size_t>(d)] = (d % 4 < 2 ? 1.0F : -1.0F) / std::sqrt(12.0F);
  }
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(size_t{kRows} * kStride, 1e9F);
  for (int32_t i = 0; i < kRows; ++i) {
    const float x = 5 * normal(generator);
    const float y = 2 * normal(generator);
    for (int32_t d = 0; d < kWidth; ++d) {
      rows[static_cast<size_t>(i * kStride + d)] = 30 + x * a[static_cast<size_t>(d)] +
                                                   y * b[static_cast<size_t>(d)] +
                                                   0.01F * normal(generator);
    }
  }
  const PrincipalAxes found = principal_axes(rows.data(), kRows, kStride, kWidth, 3);
  ASSERT_EQ(found.axes.size(), size_t{3} * kWidth);
  for (const float m : found.mean) EXPECT_NEAR(m, 30, 1);
  EXPECT_GT(std::abs(dot(found.axes.data(), a.data(), kWidth)), 0.99);
  EXPECT_GT(std::abs(dot(found.axes.data() + kWidth, b.data(), kWidth)), 0.99);
  for (int32_t i = 0; i < 3; ++i) {
    for (int32_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(dot(found.axes.data() + i * kWidth, found.axes.data() + j * kWidth, kWidth),
                  i == j ? 1 : 0, 1e-5);
    }
  }
}

TEST(PrincipalAxes, OfFewerRowsThanAxes) {
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  const PrincipalAxes found = principal_axes(rows.data(), 2, 3, 3, 3);
  ASSERT_EQ(found.axes.size(), 9U);
  for (const float x : found.axes) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace kvasir
