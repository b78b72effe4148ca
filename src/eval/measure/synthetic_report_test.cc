#include "eval/measure/synthetic_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvasir::eval {
namespace {

SyntheticSamples samples_at(int32_t depth, double attention) {
  SyntheticSamples samples;
  samples.depth = depth;
  samples.live_tokens = depth;
  samples.read_bytes = 6e6;
  samples.kv_bytes = 7'000'000;
  samples.kv_bytes_peak = 8'000'000;
  samples.first = {0.1, attention, 0, 1, 2, 0, 3.1 + attention};
  // Ranking and eviction happen in one of three steps.
  samples.steps = {{0.1, attention, 0, 0, 0, 0, 0.1 + attention},
                   {0.2, attention + 1, 0, 0.9, 0.3, 0, 1.4 + attention},
                   {0.1, attention, 0, 0, 0, 0, 0.1 + attention}};
  return samples;
}

SyntheticSetup setup() {
  SyntheticSetup setup;
  setup.kernels = "avx2";
  setup.flags = "--kv-policy conf";
  setup.machine = {"a cpu", 2, 6, {5, 6, 7}, 1 << 30, 9'000'000};
  return setup;
}

TEST(SyntheticReport, TakesMediansOfWhatEachStepDoesAndMeansOfTheRest) {
  const StepTimes typical = typical_step(samples_at(1000, 2));
  EXPECT_DOUBLE_EQ(typical.append, 0.1);
  EXPECT_DOUBLE_EQ(typical.attention, 2);
  EXPECT_DOUBLE_EQ(typical.step, 2.1);
  EXPECT_DOUBLE_EQ(typical.ranking, 0.3);
  EXPECT_NEAR(typical.eviction, 0.1, 1e-12);
}

TEST(SyntheticReport, BytesOverAttentionAreItsRate) {
  EXPECT_DOUBLE_EQ(attention_gb_per_s(samples_at(1000, 2)), 3);  // 6 MB in 2 ms
  EXPECT_EQ(attention_gb_per_s(SyntheticSamples{}), 0);
}

TEST(SyntheticReport, SlopeIsPerHundredThousandRows) {
  const StepTimes per = slope(samples_at(50'000, 2), samples_at(250'000, 5));
  EXPECT_DOUBLE_EQ(per.attention, 1.5);
  EXPECT_DOUBLE_EQ(per.step, 1.5);
  EXPECT_DOUBLE_EQ(per.append, 0);
}

TEST(SyntheticReport, TableHasALineForEachDepthAndOneForEachSlope) {
  const std::string table = to_markdown(setup(), {samples_at(50'000, 2), samples_at(250'000, 5)});
  const std::string row =
      "| 50000 | 50000 | 0.100 | 2.000 | 0.000 | 0.300 | 0.100 | 0.000 | 2.100 | 5.100 | 3.00 | 50 "
      "% | "
      "7.0 ";
  for (const std::string& line :
       {std::string("synthetic rows: 4 layers, 9 heads, 3 KV heads, head_dim 64\n"),
        std::string("cpu: a cpu, 2 threads, kernels avx2\n"),
        std::string("cache: --kv-policy conf\n"), row + "|\n",
        std::string(
            "| d50000 - d250000 | 0.000 | 1.500 | 0.000 | 0.000 | 0.000 | 0.000 | 1.500 |\n"),
        std::string("2 threads over 1024 MiB: 6.00 GB/s (median; 5.00 - 7.00).\n"),
        std::string("KV at its peak: 8.0 MB."), std::string("at its peak: 9.0 MB.\n")}) {
    EXPECT_NE(table.find(line), std::string::npos) << line << table;
  }
  EXPECT_EQ(to_markdown(setup(), {samples_at(50'000, 2)}).find("per 100,000"), std::string::npos);
}

TEST(SyntheticReport, SaysWhereStepsDiffer) {
  SyntheticSamples samples = samples_at(50'000, 2);
  EXPECT_EQ(to_markdown(setup(), {samples}).find("Steps differ"), std::string::npos);
  samples.steps[1].step = 9;
  EXPECT_NE(to_markdown(setup(), {samples}).find("Steps differ at d50000: the longest took 9.000"),
            std::string::npos);
}

TEST(SyntheticReport, JsonHoldsEveryStep) {
  const auto json =
      nlohmann::json::parse(to_json(setup(), {samples_at(50'000, 2), samples_at(250'000, 5)}));
  EXPECT_EQ(json.at("synthetic").at("kv_heads"), 3);
  EXPECT_EQ(json.at("read_gb_per_s"), 6.0);
  EXPECT_EQ(json.at("resident_bytes_peak"), 9'000'000);
  const auto& test = json.at("tests").at(1);
  EXPECT_EQ(test.at("depth"), 250'000);
  EXPECT_EQ(test.at("ms").at("attention"), 5.0);
  EXPECT_EQ(test.at("first_step_ms").at("eviction"), 2.0);
  EXPECT_EQ(test.at("steps_ms").at("ranking"), nlohmann::json({0.0, 0.9, 0.0}));
  EXPECT_NEAR(test.at("share_of_read").get<double>(), 0.2, 1e-9);
  EXPECT_EQ(test.at("kv_bytes_peak"), 8'000'000);
  EXPECT_EQ(json.at("slopes").size(), 1U);
  EXPECT_EQ(json.at("slopes").at(0).at("ms_per_100000_rows").at("attention"), 1.5);
}

}  // namespace
}  // namespace kvasir::eval
