#include "eval/measure/paired.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "eval/measure/paired_report.h"

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
  EXPECT_NE(table.find("| tg10 @ d0 | 5.00 | 10.00 | 2.000 | 2.000 - 2.000 | | | | | |\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("| tg10 @ d4096 | 1.25 | 2.50 | 2.000 | 2.000 - 2.000 | 600.00 | 300.00 | "
                       "2.00 | | |\n"),
            std::string::npos)
      << table;
}

// Of a batch, with what each side reads: 30 MB at depth 0, 330 MB deep.
PairedSamples batch_at(int32_t depth, double seconds, int64_t bytes) {
  PairedSamples samples = decode_at(depth, seconds);
  samples.batch = 4;
  samples.a_bytes = bytes;
  samples.b_bytes = bytes / 2;
  return samples;
}

TEST(Report, RatesOfABatchAreOfAllItsSequences) {
  const PairedSamples shallow = batch_at(0, 1, 30'000'000);
  const PairedSamples deep = batch_at(4096, 4, 330'000'000);
  EXPECT_EQ(test_name(deep), "tg10 x4 @ d4096");
  EXPECT_DOUBLE_EQ(tokens_per_second(deep, deep.a), 5);
  EXPECT_TRUE(attention_time({decode_at(0, 1), deep}, deep).empty()) << "of another batch";
  const auto time = attention_time({decode_at(0, 9), shallow, deep}, deep);
  ASSERT_EQ(time.size(), 1U);
  EXPECT_DOUBLE_EQ(time[0].a, 600) << "of a step, not of a token";
  EXPECT_DOUBLE_EQ(time[0].a_gb_per_s, 0.5);  // 300 MB in 0.6 s
  EXPECT_DOUBLE_EQ(time[0].b_gb_per_s, 0.5);  // 150 MB in 0.3 s

  PairedSetup setup;
  setup.machine = {"a cpu", 2, 2, {1, 2, 3}, 1 << 30, 9'000'000};
  const std::string table = to_markdown(setup, {shallow, deep});
  for (const char* line :
       {"| tg10 x4 @ d4096 | 5.00 | 10.00 | 2.000 | 2.000 - 2.000 | 600.00 | 300.00 | 2.00 | "
        "0.50 (25 %) | 0.50 (25 %) |\n",
        "2 threads over 1024 MiB: 2.00 GB/s (median; 1.00 - 3.00).\n",
        "Resident memory of the process, both sides with weights: 9.0 MB at its peak.\n"}) {
    EXPECT_NE(table.find(line), std::string::npos) << line << table;
  }
  const auto json = nlohmann::json::parse(to_json(setup, {shallow, deep}));
  const auto& test = json.at("tests").at(1);
  EXPECT_EQ(test.at("batch"), 4);
  EXPECT_EQ(test.at("read_bytes").at("stock"), 330'000'000);
  EXPECT_EQ(test.at("attention_gb_per_s").at("kvasir"), 0.5);
  EXPECT_EQ(test.at("share_of_read").at("kvasir"), 0.25);
  EXPECT_EQ(json.at("read_gb_per_s"), 2.0);
  EXPECT_EQ(json.at("resident_bytes_peak"), 9'000'000);
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

TEST(Plan, GenerationsThatGoOnNeedPositions) {
  PairedPlan plan;
  plan.depths = {100, 300};
  plan.prefill = 64;
  plan.decode = 32;
  plan.repetitions = 3;
  plan.batches = {1, 8};
  EXPECT_EQ(plan.n_positions(), 300 + 64);
  plan.b_evicts = true;
  EXPECT_EQ(plan.n_positions(), 300 + 2 * 4 * 32) << "one untimed and three timed for each batch";
}

TEST(Plan, CountsEachSequence) {
  PairedPlan plan;
  plan.depths = {100};
  plan.prefill = 0;
  const double one = plan_units(plan);
  plan.batches = {1, 4};
  const double copied = plan_units(plan);
  EXPECT_GT(copied, 4 * one);
  plan.copies = false;
  EXPECT_GT(plan_units(plan), copied) << "three sequences are filled, not copied";
}

}  // namespace
}  // namespace kvasir::eval
