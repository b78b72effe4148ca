#include "app/cost.h"

#include <gtest/gtest.h>

#include <array>

namespace kvasir::app {
namespace {

constexpr std::array<int64_t, 2> kLengths = {100, 4096};
constexpr int64_t kRow = int64_t{2} * 3 * (64 + 64);  // f16 bytes of a token in a layer

ModelInfo model() {
  ModelInfo info;
  info.layers = {{9, 3, 64, 64, 0}, {9, 3, 64, 64, 0}, {9, 0, 64, 64, 0}};
  return info;
}

TEST(Cost, FullCacheIsWholePagesOfEveryToken) {
  const auto result = costs(model(), {}, kLengths).value();
  ASSERT_EQ(result.size(), 2u);
  EXPECT_EQ(result[0].full_bytes, kRow * 2 * 128) << "100 tokens take two pages of 64";
  EXPECT_EQ(result[1].full_bytes, kRow * 2 * 4096);
  EXPECT_EQ(result[1].steady_bytes, result[1].full_bytes);
  EXPECT_EQ(result[1].peak_bytes, result[1].full_bytes);
  EXPECT_EQ(result[1].live_sure, 4096);
  EXPECT_EQ(result[1].live_unsure, 4096);
}

TEST(Cost, ConfHasTwoBudgetsAndPaysForTheLarger) {
  CacheOptions options;
  options.policy = "conf";
  options.params.budget = 1024;
  const Cost cost = costs(model(), options, kLengths).value()[1];
  EXPECT_EQ(cost.live_sure, 512);
  EXPECT_EQ(cost.live_unsure, 1024);
  EXPECT_EQ(cost.steady_bytes, kRow * 2 * 1024);
  EXPECT_EQ(cost.peak_bytes, cost.full_bytes) << "exact prefill holds the whole prompt";
  EXPECT_EQ(costs(model(), options, kLengths).value()[0].live_unsure, 100);
}

TEST(Cost, StreamedPrefillPeaksOneChunkOverTheBudget) {
  CacheOptions options;
  options.policy = "window";
  options.params.budget = 1024;
  options.prefill = PrefillMode::kStream;
  const Cost cost = costs(model(), options, kLengths, 256).value()[1];
  EXPECT_EQ(cost.live_sure, 1024);
  EXPECT_EQ(cost.peak_bytes, kRow * 2 * (1024 + 256));
}

TEST(Cost, DemotedTokensTakeTheirFormatsBytes) {
  CacheOptions options;
  const auto full = costs(model(), options, std::array<int64_t, 1>{32768});
  options.format = "int8";
  const auto demoted = costs(model(), options, std::array<int64_t, 1>{32768});
  ASSERT_TRUE(full && demoted);
  const double share = static_cast<double>(demoted.value()[0].steady_bytes) /
                       static_cast<double>(full.value()[0].steady_bytes);
  EXPECT_NEAR(share, 136.0 / 256, 0.01);
  EXPECT_EQ(demoted.value()[0].peak_bytes, full.value()[0].peak_bytes);
}

TEST(Cost, SlidingWindowLayersHoldTheirWindow) {
  ModelInfo info = model();
  info.layers[0].window = 512;
  CacheOptions options;
  options.policy = "window";
  options.params.budget = 256;
  const Cost cost = costs(info, options, kLengths).value()[1];
  EXPECT_EQ(cost.full_bytes, (512 + 4096) * kRow);
  EXPECT_EQ(cost.steady_bytes, (512 + 256) * kRow);
  EXPECT_EQ(cost.live_sure, 256);
}

TEST(Cost, LayersWithoutRowsCountNowhere) {
  ModelInfo info;
  info.layers = {{9, 0, 64, 64, 0}};
  const Cost cost = costs(info, {}, kLengths).value()[1];
  EXPECT_EQ(cost.live_unsure, 0);
  EXPECT_EQ(cost.peak_bytes, 0);
}

TEST(Cost, APolicyThatRefusesIsPassedOn) {
  CacheOptions options;
  options.policy = "window";  // needs a budget
  EXPECT_FALSE(costs(model(), options, kLengths));
}

TEST(Cost, ACapGivesEachSequenceItsShare) {
  ModelInfo info = model();
  info.context_length = 100'000;
  CacheOptions options;
  options.policy = "window";
  options.budget_mb = 64;
  const auto one = cap_cost(info, options, 1, 512, 2);
  const auto four = cap_cost(info, options, 4, 512, 2);
  ASSERT_TRUE(one && four);
  // Two layers with rows; what is no row takes a few percent.
  const double all = (64 << 20) / (2.0 * kRow);
  EXPECT_LT(one.value().tokens, all);
  EXPECT_GT(one.value().tokens, all * 0.9);
  EXPECT_NEAR(four.value().tokens, one.value().tokens / 4.0, all * 0.02);
  EXPECT_GT(four.value().least_mib, one.value().least_mib);
  options.budget_mb = static_cast<int32_t>(four.value().least_mib) - 1;
  EXPECT_EQ(cap_cost(info, options, 4, 512, 2).value().tokens, 0);
}

}  // namespace
}  // namespace kvasir::app
