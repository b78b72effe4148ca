#include "eval/paired.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "eval/paired_report.h"

namespace kvasir::eval {
namespace {

// b is twice as fast in every pair, while the machine slows down by the pair.
PairedSamples decode_at(int32_t depth, double seconds) {
  PairedSamples samples{depth, false, 10, {}, {}};
  for (const double drift : {1.0, 3.0, 2.0}) {
    samples.a.push_back(seconds * drift);
    samples.b.push_back(seconds * drift / 2);
  }
  return samples;
}

TEST(Ratio, IsTakenInsideThePair) {
  PairedSamples samples = decode_at(0, 1);
  const Ratio ratio = speed_ratio(samples);
  EXPECT_DOUBLE_EQ(ratio.median, 2);
  EXPECT_DOUBLE_EQ(ratio.low, 2);
  EXPECT_DOUBLE_EQ(ratio.high, 2);
  samples.b[0] = 1;
  EXPECT_DOUBLE_EQ(speed_ratio(samples).low, 1);
  EXPECT_DOUBLE_EQ(speed_ratio(samples).median, 2);
}

TEST(Rounds, AddUpPairByPair) {
  std::vector<PairedSamples> all;
  append_samples(all, {decode_at(0, 1), decode_at(4096, 4)});
  append_samples(all, {decode_at(0, 2), decode_at(4096, 8)});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].a, (std::vector<double>{4, 12, 8, 8, 24, 16}));
  EXPECT_EQ(all[1].b, (std::vector<double>{2, 6, 4, 4, 12, 8}));
}

TEST(TokensPerSecond, IsOfTheMedian) {
  const PairedSamples samples = decode_at(0, 1);
  EXPECT_DOUBLE_EQ(tokens_per_second(samples, samples.a), 5);
  EXPECT_DOUBLE_EQ(tokens_per_second(samples, samples.b), 10);
}

TEST(AttentionTime, IsWhatAStepCostsBeyondDepthZero) {
  const PairedSamples base = decode_at(0, 1);
  const PairedSamples deep = decode_at(4096, 4);
  const auto time = attention_time({base, deep}, deep);
  ASSERT_EQ(time.size(), 1U);
  EXPECT_DOUBLE_EQ(time[0].a, 600);  // (8 s - 2 s) for 10 tokens
  EXPECT_DOUBLE_EQ(time[0].b, 300);
  EXPECT_DOUBLE_EQ(time[0].ratio, 2);
  EXPECT_TRUE(attention_time({base, deep}, base).empty());
  PairedSamples prefill = deep;
  prefill.is_prefill = true;
  EXPECT_TRUE(attention_time({base, prefill}, prefill).empty()) << "of another kind";
}

TEST(Report, JsonHoldsEverySample) {
  PairedSetup setup;
  setup.model = "tiny";
  setup.b_flags = "--kv-policy window";
  const auto json = nlohmann::json::parse(to_json(setup, {decode_at(0, 1), decode_at(4096, 4)}));
  EXPECT_EQ(json.at("flags"), "--kv-policy window");
  const auto& deep = json.at("tests").at(1);
  EXPECT_EQ(deep.at("depth"), 4096);
  EXPECT_EQ(deep.at("stock").at("seconds"), nlohmann::json({4.0, 12.0, 8.0}));
  EXPECT_EQ(deep.at("ratio").at("median"), 2.0);
  EXPECT_EQ(deep.at("attention_ms").at("kvasir"), 300.0);
  EXPECT_FALSE(json.at("tests").at(0).contains("attention_ms"));
}

TEST(Report, TableHasALineForEachTest) {
  const std::string table = to_markdown(PairedSetup{}, {decode_at(0, 1), decode_at(4096, 4)});
  EXPECT_NE(table.find("| tg10 @ d0 | 5.00 | 10.00 | 2.000 | 2.000 - 2.000 | | | |\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("| tg10 @ d4096 | 1.25 | 2.50 | 2.000 | 2.000 - 2.000 | 600.00 | 300.00 | "
                       "2.00 |\n"),
            std::string::npos)
      << table;
}

TEST(Report, SaysWhatABusyMachineSpoilt) {
  const PairedSamples base = decode_at(0, 1);
  const PairedSamples deep = decode_at(4096, 4);
  EXPECT_TRUE(is_steady({base, deep}, deep));
  EXPECT_EQ(to_markdown(PairedSetup{}, {base, deep}).find("Not steady"), std::string::npos);

  PairedSamples hiccup = deep;
  hiccup.a[0] *= 48;
  EXPECT_FALSE(is_steady({base, hiccup}, hiccup));
  const PairedSamples slow_base = decode_at(0, 5);
  EXPECT_FALSE(is_steady({slow_base, deep}, deep)) << "deep costs less than depth 0";
  EXPECT_NE(to_markdown(PairedSetup{}, {slow_base, deep}).find("Not steady: tg10 @ d4096"),
            std::string::npos);
}

TEST(Plan, CountsFillingOnce) {
  PairedPlan plan;
  plan.depths = {100, 300};
  plan.prefill = 0;
  plan.decode = 0;
  const double once = plan_units(plan);
  plan.refill = true;
  EXPECT_GT(plan_units(plan), once * 1.3);
}

}  // namespace
}  // namespace kvasir::eval
