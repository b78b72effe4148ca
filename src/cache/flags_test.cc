// How words of a command line become options.
#include <gtest/gtest.h>

#include "cache/test_flags.h"

namespace kvasir {
namespace {

using testing::parsed;
using testing::policies;
using testing::refusal;
using testing::Words;

TEST(TakeFlags, EveryFlagSetsItsOption) {
  const CacheOptions options = parsed({"--kv-policy", "conf",          "--kv-budget",
                                       "512",         "--kv-high",     "100",
                                       "--kv-low",    "300",           "--kv-tau",
                                       "0.8",         "--kv-alpha",    "0.7",
                                       "--kv-lambda", "0.95",          "--kv-protect",
                                       "64",          "--kv-sinks",    "0",
                                       "--kv-format", "f16",           "--kv-select",
                                       "dense",       "--kv-prefill",  "stream",
                                       "--kv-math",   "bf16",          "--kv-positions",
                                       "cache",       "--kv-trace",    "t.jsonl",
                                       "--kv-stats",  "--kv-pyramid",  "0.5,96",
                                       "--kv-heads",  "max",           "--kv-shrink",
                                       "8",           "--kv-blend",    "--kv-burst",
                                       "16",          "--kv-scale",    "log",
                                       "--kv-values", "--kv-by-age",   "--kv-seed",
                                       "7",           "--kv-schedule", "s.jsonl"});
  CacheOptions expected;
  expected.policy = "conf";
  expected.params = {.budget = 512,
                     .high = 100,
                     .low = 300,
                     .tau = 0.8,
                     .alpha = 0.7,
                     .lambda = 0.95,
                     .protect = 64,
                     .sinks = 0,
                     .heads = HeadReduction::kMax,
                     .seed = 7,
                     .by_age = true,
                     .pyramid = Pyramid{0.5, 96},
                     .shrink = 8,
                     .burst = 16,
                     .blend = true,
                     .values = true,
                     .scale = AttentionScale::kLog,
                     .schedule_path = "s.jsonl",
                     .schedule = {}};
  expected.prefill = PrefillMode::kStream;
  expected.math = MathMode::kBf16;
  expected.positions = PositionMode::kCache;
  expected.trace_path = "t.jsonl";
  expected.stats = true;
  EXPECT_EQ(options, expected);
}

TEST(TakeFlags, EqualsForm) {
  Words rest;
  const CacheOptions options = parsed({"--kv-policy=window", "-c", "8", "--kv-budget=64",
                                       "--kv-trace=--odd=name", "--kv-prefill=stream"},
                                      &rest);
  EXPECT_EQ(options.policy, "window");
  EXPECT_EQ(options.params.budget, 64);
  EXPECT_EQ(options.trace_path, "--odd=name");
  EXPECT_EQ(options.prefill, PrefillMode::kStream);
  EXPECT_EQ(rest, (Words{"-c", "8"}));
}

TEST(TakeFlags, ForeignFlagsStayInOrder) {
  const Words foreign = {"-m",
                         "model.gguf",
                         "--kv-unified",
                         "--no-kv-unified",
                         "--kv-offload",
                         "--kv-policyx",
                         "--kv",
                         "--KV-POLICY",
                         "-kv-policy",
                         "--kv-offload=1",
                         "--kv_policy",
                         "--no-kv-offload",
                         "--kv-",
                         "",
                         "x=--kv-policy",
                         "--kv-budget-mbx=3"};
  Words mixed;
  for (const auto& word : foreign) {
    mixed.push_back("--kv-sinks");
    mixed.push_back("2");
    mixed.push_back(word);
  }
  mixed.push_back("--kv-stats");
  Words rest;
  const CacheOptions options = parsed(mixed, &rest);
  EXPECT_EQ(rest, foreign);
  EXPECT_EQ(options.params.sinks, 2);
  EXPECT_TRUE(options.stats);
}

TEST(TakeFlags, LaterOnesWin) {
  EXPECT_EQ(parsed({"--kv-budget", "1", "--kv-budget=2", "--kv-budget", "3"}).params.budget, 3);
  EXPECT_EQ(parsed({"--kv-prefill", "stream", "--kv-prefill", "exact"}).prefill,
            PrefillMode::kExact);
  const CacheOptions tokens = parsed({"--kv-budget", "25%", "--kv-budget", "64"});
  EXPECT_EQ(tokens.params.budget, 64);
  EXPECT_EQ(tokens.params.budget_percent, 0);
  const CacheOptions share = parsed({"--kv-budget", "64", "--kv-budget", "25%"});
  EXPECT_EQ(share.params.budget, 0);
  EXPECT_EQ(share.params.budget_percent, 25);
  // The plug-in's variable first, the command line folded over it.
  CacheOptions options = parsed({"--kv-policy", "conf", "--kv-tau", "0.5"});
  Words line = {"--kv-tau", "0.6"};
  ASSERT_TRUE(take_flags(line, options));
  EXPECT_EQ(options.policy, "conf");
  EXPECT_EQ(options.params.tau, 0.6);
}

TEST(TakeFlags, NumbersAtTheirLimits) {
  EXPECT_EQ(parsed({"--kv-budget", "2147483647"}).params.budget, 2147483647);
  EXPECT_EQ(parsed({"--kv-budget", "1"}).params.budget, 1);
  EXPECT_EQ(parsed({"--kv-protect", "0"}).params.protect, 0);
  EXPECT_EQ(parsed({"--kv-budget", "12.5%"}).params.budget_percent, 12.5);
  EXPECT_EQ(parsed({"--kv-budget", "100%"}).params.budget_percent, 100);
  EXPECT_EQ(parsed({"--kv-tau", "0"}).params.tau, 0.0);
  EXPECT_EQ(parsed({"--kv-tau", "1"}).params.tau, 1.0);
  EXPECT_EQ(parsed({"--kv-tau", "1e-3"}).params.tau, 0.001);
}

TEST(TakeFlags, RefusesValues) {
  const std::pair<Words, const char*> cases[] = {
      {{"--kv-budget", "0"}, "--kv-budget 0: allowed is a whole number from 1 to 2147483647"},
      {{"--kv-budget", "-5"}, "--kv-budget -5: allowed is a whole number from 1 to 2147483647"},
      {{"--kv-budget", "2147483648"},
       "--kv-budget 2147483648: allowed is a whole number from 1 to 2147483647"},
      {{"--kv-high", "12x"}, "--kv-high 12x: allowed is a whole number from 1 to 2147483647"},
      {{"--kv-low", "1.5"}, "--kv-low 1.5: allowed is a whole number from 1 to 2147483647"},
      {{"--kv-low", "+5"}, "--kv-low +5: allowed is a whole number from 1 to 2147483647"},
      {{"--kv-sinks", "-1"}, "--kv-sinks -1: allowed is a whole number from 0 to 2147483647"},
      {{"--kv-protect", " 3"}, "--kv-protect  3: allowed is a whole number from 0 to 2147483647"},
      {{"--kv-tau", "1.01"}, "--kv-tau 1.01: allowed is a number from 0 to 1"},
      {{"--kv-tau", "nan"}, "--kv-tau nan: allowed is a number from 0 to 1"},
      {{"--kv-alpha=-0.1"}, "--kv-alpha -0.1: allowed is a number from 0 to 1"},
      {{"--kv-lambda", "0,9"}, "--kv-lambda 0,9: allowed is a number from 0 to 1"},
      {{"--kv-lambda", "inf"}, "--kv-lambda inf: allowed is a number from 0 to 1"},
      {{"--kv-budget", "0%"}, "--kv-budget 0%: allowed is a share above 0% and at most 100%"},
      {{"--kv-budget", "101%"}, "--kv-budget 101%: allowed is a share above 0% and at most 100%"},
      {{"--kv-budget", "%"}, "--kv-budget %: allowed is a share above 0% and at most 100%"},
      {{"--kv-pyramid", "0.5"},
       "--kv-pyramid 0.5: allowed is BETA,NMIN: a number above 0 and at most 1, a whole number "
       "from "
       "1 on"},
      {{"--kv-pyramid", "0,96"},
       "--kv-pyramid 0,96: allowed is BETA,NMIN: a number above 0 and at most 1, a whole number "
       "from 1 on"},
      {{"--kv-heads", "sum"}, "--kv-heads sum: allowed is mean or max"},
      {{"--kv-scale", "z"}, "--kv-scale z: allowed is minmax, rank or log"},
      {{"--kv-burst", "0"}, "--kv-burst 0: allowed is a whole number from 1 to 2147483647"},
      {{"--kv-blend=1"}, "--kv-blend takes no value, found \"1\""},
      {{"--kv-math", "f16"}, "--kv-math f16: allowed is f32 or bf16"},
      {{"--kv-prefill", "lazy"}, "--kv-prefill lazy: allowed is exact or stream"},
      {{"--kv-positions", "slot"}, "--kv-positions slot: allowed is original or cache"},
      {{"--kv-stats=1"}, "--kv-stats takes no value, found \"1\""},
  };
  for (const auto& [words, message] : cases) EXPECT_EQ(refusal(words), message);
}

TEST(TakeFlags, RefusesMissingValues) {
  EXPECT_EQ(refusal({"-m", "x", "--kv-policy"}),
            "--kv-policy needs a value NAME, found the end of the line; allowed: " + policies());
  EXPECT_EQ(refusal({"--kv-trace", "--kv-stats"}),
            "--kv-trace needs a value FILE, found the flag --kv-stats; allowed: a file that can be "
            "written");
  EXPECT_EQ(refusal({"--kv-tau="}),
            "--kv-tau needs a value X, found an empty one; allowed: 0 to 1");
  EXPECT_EQ(refusal({"--kv-tau", "", "0.5"}),
            "--kv-tau needs a value X, found an empty one; allowed: 0 to 1");
}

TEST(TakeFlags, ReadsSelections) {
  const CacheOptions tokens =
      parsed({"--kv-select", "omnikv", "--kv-keep", "1024", "--kv-full-layers", "0,1,2,8,18"});
  EXPECT_EQ(tokens.select, "omnikv");
  EXPECT_EQ(tokens.select_params.keep, (Keep{1024, 30}));
  EXPECT_EQ(*tokens.select_params.full_layers, (std::vector<int32_t>{0, 1, 2, 8, 18}));
  EXPECT_EQ(parsed({"--kv-keep", "12.5%"}).select_params.keep, (Keep{0, 12.5}));
  const std::string share = ": allowed is a share above 0% and at most 100%";
  EXPECT_EQ(refusal({"--kv-keep", "0%"}), "--kv-keep 0%" + share);
  EXPECT_EQ(refusal({"--kv-keep", "101%"}), "--kv-keep 101%" + share);
  for (const char* value : {"0", "-1", "1.5", "x"}) {
    EXPECT_EQ(refusal({"--kv-keep", value}),
              std::string("--kv-keep ") + value +
                  ": allowed is a whole number of tokens, 1 or more, or a share P%");
  }
  for (const char* value : {"1,0", "0,0", "0,x", "-1", "0,", ",0", "0,,1"}) {
    EXPECT_EQ(refusal({"--kv-full-layers", value}),
              std::string("--kv-full-layers ") + value +
                  ": allowed is ascending numbers of layers with commas: 0,1,2,8,18");
  }
}

}  // namespace
}  // namespace kvasir
