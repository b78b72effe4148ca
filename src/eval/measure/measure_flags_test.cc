#include "eval/measure/measure_flags.h"

#include <gtest/gtest.h>

namespace kvasir::eval {
namespace {

using Words = std::vector<std::string>;

std::string refused(const Words& words) {
  const auto flags = parse_measure(words);
  return flags ? "" : flags.error();
}

TEST(MeasureFlags, DefaultsAreOneSequence) {
  const auto flags = parse_measure({});
  ASSERT_TRUE(flags) << flags.error();
  EXPECT_EQ(flags.value().model, "smollm2");
  EXPECT_EQ(flags.value().plan.batches, std::vector<int32_t>{1});
  EXPECT_EQ(flags.value().plan.prefill, 512);
  EXPECT_FALSE(flags.value().is_synthetic);
}

TEST(MeasureFlags, ListsAreSortedAndWithoutDoubles) {
  const auto flags = parse_measure({"--batch", "8,1,4,8", "-d", "64,0"});
  ASSERT_TRUE(flags) << flags.error();
  EXPECT_EQ(flags.value().plan.batches, (std::vector<int32_t>{1, 4, 8}));
  EXPECT_EQ(flags.value().plan.n_sequences(), 8);
  EXPECT_EQ(flags.value().plan.depths, (std::vector<int32_t>{0, 64}));
}

TEST(MeasureFlags, RefusesBatchesThatAreNone) {
  for (const char* batch : {"0", "257", "-1", "1,0", "x", ""}) {
    EXPECT_NE(refused({"--batch", batch}), "") << batch;
  }
  EXPECT_NE(refused({"--batch", "0"}).find("Value 0 not in range 1 to 256"), std::string::npos)
      << refused({"--batch", "0"});
}

TEST(MeasureFlags, CapacityComparesSettings) {
  const auto usual = parse_measure({"--capacity", "256"});
  ASSERT_TRUE(usual) << usual.error();
  EXPECT_TRUE(usual.value().is_capacity);
  EXPECT_EQ(usual.value().capacity.budget_bytes, int64_t{256} << 20);
  EXPECT_EQ(usual.value().capacity.depth, 4096);
  EXPECT_EQ(usual.value().capacity.most_sequences, 64);
  std::vector<std::string> names;
  for (const Setting& setting : usual.value().settings) names.push_back(setting.name);
  EXPECT_EQ(names, (std::vector<std::string>{"full", "conf", "omnikv", "deltakv"}));

  const auto asked = parse_measure({"--capacity", "9", "-d", "64", "-b", "8", "-n", "2", "-ub",
                                    "32", "--set", "small: --kv-format k4v4", "--kv-recent", "32"});
  ASSERT_TRUE(asked) << asked.error();
  const CapacityPlan& plan = asked.value().capacity;
  EXPECT_EQ(plan.depth, 64);
  EXPECT_EQ(plan.most_sequences, 8);
  EXPECT_EQ(plan.steps, 2);
  EXPECT_EQ(plan.n_ubatch, 32);
  ASSERT_EQ(asked.value().settings.size(), 2U);
  EXPECT_EQ(asked.value().settings[1].options.recent, 32);
}

TEST(MeasureFlags, CapacityRefusesWhatItDoesNotRead) {
  EXPECT_NE(refused({"--set", "a: --kv-format int8"}), "");
  EXPECT_NE(refused({"--capacity", "9", "-p", "64"}), "");
  EXPECT_NE(refused({"--capacity", "9", "--synthetic"}), "");
  EXPECT_NE(refused({"--capacity", "9", "-d", "64,128"}).find("of one depth"), std::string::npos);
  EXPECT_NE(refused({"--capacity", "9", "-n", "0"}).find("of one depth"), std::string::npos);
  EXPECT_NE(refused({"--capacity", "9", "--kv-policy", "window", "--kv-budget-mb", "9"})
                .find("allows no copies"),
            std::string::npos);
}

TEST(MeasureFlags, PrefillIsOfOneSequence) {
  EXPECT_EQ(refused({"-b", "4", "-p", "64"}),
            "-p 64 is measured with one sequence: add 1 to --batch, or give -p 0");
  const auto flags = parse_measure({"-b", "4"});
  ASSERT_TRUE(flags) << flags.error();
  EXPECT_EQ(flags.value().plan.prefill, 0);
  EXPECT_EQ(refused({"-b", "4", "-n", "0"}), "-p 0 with -n 0 leaves nothing to measure");
}

TEST(MeasureFlags, CacheFlagsDecideHowSequencesAreFilled) {
  const auto plain = parse_measure({"-b", "2"});
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain.value().plan.refill);
  EXPECT_FALSE(plain.value().plan.b_evicts);
  EXPECT_TRUE(plain.value().plan.copies);
  const auto capped = parse_measure({"--kv-policy", "window", "-b", "2", "--kv-budget-mb", "64"});
  ASSERT_TRUE(capped) << capped.error();
  EXPECT_TRUE(capped.value().plan.refill);
  EXPECT_TRUE(capped.value().plan.b_evicts);
  EXPECT_FALSE(capped.value().plan.copies) << "a cap allows no copies";
  EXPECT_EQ(capped.value().kv_flags, "--kv-policy window --kv-budget-mb 64");
}

TEST(MeasureFlags, SyntheticHasItsOwnShapeAndDepths) {
  const auto flags = parse_measure({"--synthetic", "--synthetic-heads", "32",
                                    "--synthetic-kv-heads", "8", "--synthetic-head-dim", "128",
                                    "--synthetic-layers", "2", "-n", "7", "--kv-format", "int8"});
  ASSERT_TRUE(flags) << flags.error();
  const SyntheticPlan& plan = flags.value().synthetic;
  EXPECT_TRUE(flags.value().is_synthetic);
  EXPECT_EQ(plan.shape.n_heads, 32);
  EXPECT_EQ(plan.shape.n_kv_heads, 8);
  EXPECT_EQ(plan.shape.head_dim, 128);
  EXPECT_EQ(plan.shape.n_layers, 2);
  EXPECT_EQ(plan.steps, 7);
  EXPECT_EQ(plan.depths, (std::vector<int32_t>{100'000, 500'000, 1'000'000}));
  EXPECT_EQ(plan.options.format, "int8");
  const auto shallow = parse_measure({"--synthetic", "-d", "300,100"});
  ASSERT_TRUE(shallow);
  EXPECT_EQ(shallow.value().synthetic.depths, (std::vector<int32_t>{100, 300}));
}

TEST(MeasureFlags, SyntheticTakesNoModelAndModelsNoShape) {
  EXPECT_NE(refused({"--synthetic", "-m", "smollm2"}), "");
  for (const Words& words : {Words{"-p", "64"}, {"-b", "2"}, {"-r", "3"}, {"-ub", "64"}}) {
    EXPECT_NE(refused({"--synthetic", words[0], words[1]}), "") << words[0];
  }
  EXPECT_NE(refused({"--synthetic", "--control"}), "");
  EXPECT_EQ(refused({"--synthetic-heads", "9"}), "--synthetic-heads requires --synthetic");
  EXPECT_EQ(refused({"--synthetic", "-n", "0"}), "-n 0 leaves nothing to measure with --synthetic");
  EXPECT_NE(refused({"--synthetic", "--synthetic-head-dim", "577"}), "");
}

TEST(MeasureFlags, HelpNamesBothKindsAndTheCacheFlags) {
  const auto flags = parse_measure({"--help"});
  ASSERT_TRUE(flags) << flags.error();
  for (const char* name : {"--batch", "--synthetic", "--synthetic-kv-heads", "--kv-policy"}) {
    EXPECT_NE(flags.value().help.find(name), std::string::npos) << name;
  }
}

TEST(MeasureFlags, UnknownWordsAreRefused) { EXPECT_NE(refused({"--no-such-flag"}), ""); }

}  // namespace
}  // namespace kvasir::eval
