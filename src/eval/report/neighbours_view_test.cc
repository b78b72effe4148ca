// What is said of a result of `kvasir eval neighbours`, and its claims.
#include "eval/report/neighbours_view.h"

#include <gtest/gtest.h>

#include "eval/report/claims_neighbours.h"
#include "eval/report/markdown.h"
#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

TEST(NeighboursView, MeansAreOverLayers) {
  const Json mean = mean_layer(neighbours_result());
  EXPECT_DOUBLE_EQ(far_share(mean, "earlier"), 0.625);
  EXPECT_DOUBLE_EQ(ratio_of(mean, "nearest", "whole"), 0.875);
  EXPECT_DOUBLE_EQ(ratio_of(mean, "nearest", "v"), 1.3125);
  EXPECT_DOUBLE_EQ(effective_rank(mean, "residuals", true), 21);
  EXPECT_DOUBLE_EQ(whole_spectrum(mean, "tokens", false).at("energy")[1].get<double>(), 0.75);
}

TEST(NeighboursView, BinsHaveNamesAndShares) {
  const Json result = neighbours_result();
  EXPECT_EQ(distance_bins(result), (std::vector<std::string>{"1-4", "5-16", "more"}));
  EXPECT_EQ(distance_shares(mean_layer(result), "reference"), (std::vector<double>{0.1, 0.2, 0.7}));
}

TEST(NeighboursView, MeansLeaveUnknownFieldsAlone) {
  Json result = neighbours_result();
  result["layers"][0]["new"] = {{"a", {1, 2}}, {"b", 1}};
  result["layers"][1]["new"] = {{"a", {1, 2, 3}}, {"b", "text"}};
  EXPECT_DOUBLE_EQ(far_share(mean_layer(result), "earlier"), 0.625);
}

TEST(NeighboursView, FiguresHaveTheirNames) {
  for (const MainFigure& figure : main_figures(neighbours_result())) {
    if (figure.name == "|x - m| / |x|, last reference before it, K") {
      EXPECT_EQ(figure.text(), "0.6");
    }
    if (figure.name == "energy of 8 directions, tokens, less their channel means") {
      EXPECT_EQ(figure.text(), "75.0 %");
    }
  }
  EXPECT_EQ(main_figures(neighbours_result()).size(), 5U + 12U + 3U + 4U * 4U);
}

// Claim by claim: far 0.625, length .875 against .75, rank 21 against 4, and 20 centred.
TEST(NeighboursClaims, AreJudgedByTheMeanAndCountLayers) {
  const auto claims = neighbours_claims(neighbours_result());
  ASSERT_EQ(claims.size(), 5U);
  const Verdict yes = Verdict::kReproduced, no = Verdict::kNotReproduced;
  const std::vector<Verdict> expected = {yes, yes, no, yes, yes};
  for (size_t i = 0; i < claims.size(); ++i) {
    EXPECT_EQ(claims[i].verdict, expected[i]) << claims[i].text;
    EXPECT_NE(claims[i].measured.find("in 1 of 2 layers"), std::string::npos) << claims[i].measured;
  }
  EXPECT_EQ(claims[0].measured, "62.5 %, above 60 % in 1 of 2 layers");
  EXPECT_NE(claims[3].measured.find("rank 21.0, tokens 4.0; 8 directions hold 50.0 % and 75.0 %"),
            std::string::npos)
      << claims[3].measured;
  Json result = neighbours_result();
  result["layers"].erase(0);
  for (const Claim& claim : neighbours_claims(result)) EXPECT_EQ(claim.verdict, no) << claim.text;
}

TEST(NeighboursClaims, StandInThePageAndTheTables) {
  const auto markdown = to_markdown(std::vector<Json>{neighbours_result()}, {"n.json"});
  ASSERT_TRUE(markdown) << markdown.error();
  EXPECT_NE(markdown.value().find("## neighbours: tiny, kjv"), std::string::npos);
  EXPECT_NE(markdown.value().find("62.5 %, above 60 % in 1 of 2 layers"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::eval
