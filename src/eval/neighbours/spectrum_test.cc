#include "eval/neighbours/spectrum.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>

#include "eval/neighbours/test_vectors.h"

namespace kvasir::eval {
namespace {

using testing::random_vectors;

TEST(Spectrum, EffectiveRankOfKnownSpectra) {
  EXPECT_NEAR(spectrum_of({7}).effective_rank, 1, 1e-12);
  EXPECT_NEAR(spectrum_of(std::vector<double>(20, 3.0)).effective_rank, 20, 1e-9);
  // Shares 1/2, 1/4, 1/4: entropy 1.5 ln 2.
  EXPECT_NEAR(spectrum_of({1, 0, 2, 1, -1e-9}).effective_rank, std::pow(2.0, 1.5), 1e-12);
  EXPECT_EQ(spectrum_of({0, 0}).effective_rank, 0);
}

TEST(Spectrum, EnergyIsThatOfTheStrongestDirections) {
  const Spectrum spectrum = spectrum_of({1, 2, 4, 1, 1, 1});  // shares .4 .2 .1 .1 .1 .1
  ASSERT_EQ(spectrum.energy.size(), static_cast<size_t>(kSpectrumPoints));
  EXPECT_NEAR(spectrum.energy[0], 0.4, 1e-12);
  EXPECT_NEAR(spectrum.energy[1], 0.6, 1e-12);
  EXPECT_NEAR(spectrum.energy[2], 0.8, 1e-12);
  EXPECT_NEAR(spectrum.energy[3], 1, 1e-12) << "of all where there are fewer";
  EXPECT_LE(spectrum.energy.back(), 1);
}

// Against singular values that Eigen takes from the vectors themselves.
TEST(Directions, SquaresAreThoseOfTheVectors) {
  for (const int32_t n : {5, 700}) {  // fewer and more than channels, more than one block
    TokenVectors vectors = random_vectors(n, 9, 6, 8);
    for (size_t i = 0; i < vectors.x.size(); i += 15) vectors.x[i] += 5;  // one channel's mean
    Eigen::MatrixXd all(n, 15);
    for (int32_t t = 0; t < n; ++t) {
      for (int32_t d = 0; d < 15; ++d) all(t, d) = static_cast<double>(vectors.at(t)[d]);
    }
    const Directions directions(vectors.x.data(), n, 15);
    for (const auto& [first, width] : {std::pair{0, 15}, {0, 9}, {9, 6}}) {
      for (const bool centred : {false, true}) {
        Eigen::MatrixXd part = all.middleCols(first, width);
        if (centred) part.rowwise() -= part.colwise().mean().eval();
        const Eigen::VectorXd values = part.jacobiSvd().singularValues();
        std::vector<double> squares = directions.squares(first, width, centred);
        ASSERT_EQ(squares.size(), static_cast<size_t>(width));
        std::sort(squares.begin(), squares.end(), std::greater<>());
        for (Eigen::Index i = 0; i < width; ++i) {
          const double expected = i < values.size() ? values[i] * values[i] : 0;
          EXPECT_NEAR(squares[static_cast<size_t>(i)], expected, 1e-9 * values[0] * values[0]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::eval
