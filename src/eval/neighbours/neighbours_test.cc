// A layer as a whole, on tokens that are made so that the answers are known.
#include "eval/neighbours/neighbours.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eval/neighbours/neighbours_json.h"
#include "eval/neighbours/test_vectors.h"

namespace kvasir::eval {
namespace {

using testing::random_vectors;

// Tokens repeat after `period`, each with a little noise, over a mean that all share.
TokenVectors repeating(int32_t n, int32_t period) {
  const TokenVectors base = random_vectors(period, 24, 16, 1);
  TokenVectors vectors = random_vectors(n, 24, 16, 2);
  for (int32_t t = 0; t < n; ++t) {
    for (int32_t d = 0; d < vectors.width(); ++d) {
      float& x = vectors.x[static_cast<size_t>(t * vectors.width() + d)];
      x = 3 + base.at(t % period)[d] * (d < vectors.width_k ? 4.0F : 1.0F) + 0.01F * x;
    }
  }
  return vectors;
}

LayerFigures measured(const TokenVectors& vectors, const ReferencePlan& plan) {
  SerialFor serial;
  return measure_layer(7, vectors, plan, best_kernels(), serial);
}

const SpectrumOf& find(const LayerFigures& figures, const std::string& of, bool centred) {
  for (const SpectrumOf& one : figures.spectra) {
    if (one.part == "whole" && one.of == of && one.centred == centred) return one;
  }
  ADD_FAILURE() << "no spectrum of " << of;
  return figures.spectra.front();
}

// Tokens recur after 21, references come every 10: one of the same kind lies 210, 420, ... away.
TEST(Neighbours, FarTokensThatAreAlikeAreFound) {
  const LayerFigures figures = measured(repeating(1200, 21), {4, 10, 2});
  EXPECT_EQ(figures.layer, 7);
  EXPECT_EQ(figures.n_tokens, 1200);
  EXPECT_EQ(figures.n_references, 124);
  EXPECT_GT(figures.earlier.far(), 0.97);
  EXPECT_EQ(figures.earlier.total(), 1199);
  EXPECT_EQ(figures.references.total(), 1076 * 2);
  EXPECT_EQ(figures.reference.total(), 1076);
  // The nearest are short residuals, channel means leave what differs between kinds of tokens.
  const auto& [nearest, mean, local, random] = figures.ratios;
  EXPECT_LT(nearest.whole, 0.4);
  EXPECT_LT(nearest.whole, 0.6 * mean.whole);
  EXPECT_LT(mean.whole, random.whole);
  EXPECT_LT(nearest.whole, local.whole);
  // Deviations of K are 4 times those of V, 24 channels against 16: 384 of 400.
  EXPECT_NEAR(figures.k_of_random, 0.96, 0.02);
  // x has a direction that all tokens share, which centring and residuals lack.
  EXPECT_LT(find(figures, "tokens", false).spectrum.effective_rank,
            find(figures, "tokens", true).spectrum.effective_rank);
  EXPECT_EQ(figures.spectra.size(), 12U);
}

TEST(Neighbours, WithoutTokensThatAreAlikeNothingIsGained) {
  const LayerFigures figures = measured(random_vectors(600, 32, 32, 5), {4, 10, 4});
  EXPECT_GT(figures.ratios[0].whole, 0.85);
  EXPECT_NEAR(figures.ratios[1].whole, 1, 0.02) << "the mean is nothing";
  EXPECT_NEAR(figures.ratios[2].whole, std::sqrt(2.0), 0.05) << "one other token";
  EXPECT_NEAR(figures.ratios[3].whole, std::sqrt(1.25), 0.05) << "the mean of four";
  EXPECT_NEAR(figures.earlier.far(), figures.chance_earlier, 0.03);
  EXPECT_NEAR(find(figures, "tokens", true).spectrum.effective_rank, 61, 2);
}

TEST(Neighbours, JsonHasEveryFigure) {
  const LayerFigures figures = measured(repeating(300, 21), {4, 10, 2});
  const Json json = layer_json(figures);
  EXPECT_EQ(json.at("layer"), 7);
  EXPECT_EQ(json.at("distances").at("earlier").at("counts").size(),
            distance_ends_json().size() + 1);
  EXPECT_EQ(json.at("length_ratio").at("local").at("v"), figures.ratios[2].v);
  EXPECT_EQ(json.at("k_share").at("nearest"), figures.k_of_nearest);
  EXPECT_EQ(json.at("spectra")[0].at("energy").size(), directions_json().size());
  EXPECT_EQ(directions_json()[3], 8);
}

}  // namespace
}  // namespace kvasir::eval
