// Which options fit together, and what they stand for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cache/flag_words.h"
#include "cache/presets.h"
#include "cache/test_flags.h"

namespace kvasir {
namespace {

using testing::parsed;
using testing::policies;
using testing::refusal;
using testing::Words;

// What `words` are refused with, read and checked.
std::string invalid(const Words& words) {
  const Result<void> ok = validate(parsed(words));
  return ok ? "" : ok.error();
}

TEST(Validate, SelectionsAndWhatTheyCannotBeJoinedWith) {
  for (const char* method : {"omnikv", "quest", "sketch", "sketch16"}) {
    EXPECT_EQ(invalid({"--kv-select", method}), "");
    EXPECT_EQ(invalid({"--kv-select", method, "--kv-keep", "5%", "--kv-recent", "64"}), "");
    EXPECT_EQ(invalid({"--kv-select", method, "--kv-format", "k5v4"}), "");
    for (const char* policy : {"window", "keydiff", "knorm", "random", "recency"}) {
      EXPECT_EQ(invalid({"--kv-select", method, "--kv-policy", policy, "--kv-budget", "512"}), "");
    }
    const std::string flag = std::string("--kv-select ") + method;
    for (const char* policy : {"conf", "h2o", "tova", "snapkv", "attention", "scissorhands"}) {
      EXPECT_EQ(
          invalid({"--kv-select", method, "--kv-policy", policy, "--kv-budget", "512"}),
          flag + " with --kv-policy " + policy +
              ": the policy looks at attention, of which a step that reads fewer tokens shows "
              "a part; use a policy that does not");
    }
    EXPECT_EQ(invalid({"--kv-select", method, "--kv-policy", "window", "--kv-budget", "512",
                       "--kv-positions", "cache"}),
              flag + " with --kv-positions cache: allowed is --kv-positions original");
    EXPECT_NE(invalid({"--kv-select", method, "--kv-policy", "streaming", "--kv-budget", "512"}),
              "");
    EXPECT_EQ(invalid({"--kv-select", method, "--kv-policy", "streaming", "--kv-budget", "512",
                       "--kv-positions", "original"}),
              "");
    EXPECT_EQ(invalid({"--kv-select", method, "--kv-policy", "window", "--kv-budget-mb", "64"}),
              "");
  }
  EXPECT_EQ(
      invalid({"--kv-select", "top"}),
      "--kv-select top: no such selection; allowed are dense, omnikv, quest, sketch, sketch16");
  EXPECT_EQ(invalid({"--kv-keep", "5"}),
            "--kv-keep: a step reads every stored token (--kv-select dense); choose omnikv, quest, "
            "sketch or sketch16");
  EXPECT_EQ(invalid({"--kv-select", "omnikv", "--kv-full-layers", "1"}),
            "--kv-full-layers 1: layer 0 must be among them with --kv-select omnikv");
  EXPECT_EQ(parsed({"--kv-select", "quest"}).mover(), "--kv-select quest");
  EXPECT_TRUE(parsed({"--kv-select", "quest"}).moves_rows());
}

TEST(Validate, AcceptsTheDefaultsAndWorkingSets) {
  EXPECT_TRUE(validate({}));
  EXPECT_TRUE(validate(parsed({"--kv-policy", "conf"})));
  EXPECT_TRUE(validate(parsed({"--kv-policy", "window", "--kv-budget", "64", "--kv-prefill",
                               "stream", "--kv-positions", "cache"})));
}

// The cap is budget enough for policies that need one; for conf it counts as --kv-budget does.
TEST(Validate, TheCapAloneIsABudget) {
  for (const auto name : policy_names()) {
    CacheOptions options;
    options.policy = name;
    options.budget_mb = 64;
    const auto valid = validate(options);
    if (name == "none") {
      EXPECT_EQ(valid.error().find("--kv-budget-mb 64: every token stays (--kv-policy none); "),
                0U);
      EXPECT_NE(valid.error().find("window"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(valid) << valid.error();
    const auto policy = policy_of(options);
    ASSERT_TRUE(policy);
    Confidence sure;
    sure.c = 1;
    sure.valid = true;
    StepState step{true, &sure};
    const LayerState layer{0, 1, 0};
    EXPECT_EQ(policy.value().budget->tokens(step, layer), INT32_MAX) << name;
    step.allowance = 1000;
    EXPECT_EQ(policy.value().budget->tokens(step, layer), name == "conf" ? 500 : 1000) << name;
    step.confidence = nullptr;
    EXPECT_EQ(policy.value().budget->tokens(step, layer), 1000) << name;
    step.allowance = 1;
    EXPECT_GT(policy.value().budget->tokens(step, layer), 4) << name;
  }
  const auto given = policy_of(parsed(
      {"--kv-policy", "conf", "--kv-budget-mb", "64", "--kv-low", "300", "--kv-high", "200"}));
  ASSERT_TRUE(given);
  EXPECT_EQ(given.value().budget->tokens({}, {}), 300);
}

TEST(Validate, RefusesCombinations) {
  const std::pair<Words, std::string> cases[] = {
      {{"--kv-policy", "quest"}, "--kv-policy quest: no such policy; allowed are " + policies()},
      {{"--kv-policy", "conf", "--kv-budget", "64"},
       "--kv-high 32 (half of --kv-budget 64): allowed is 37 or more, that is --kv-sinks 4 + "
       "--kv-protect 32 + 1"},
      {{"--kv-policy", "window"},
       "--kv-policy window needs --kv-budget N: N tokens per layer, sinks included; or "
       "--kv-budget-mb M"},
      {{"--kv-prefill", "stream"},
       "--kv-prefill stream needs a policy that evicts, found --kv-policy none"},
      {{"--kv-positions", "cache"},
       "--kv-positions cache needs a policy that evicts, found --kv-policy none"},
      {{"--kv-trace", "/no/such/folder/t"},
       "--kv-trace /no/such/folder/t: cannot be opened for writing: No such file or directory"},
  };
  for (const auto& [words, message] : cases) {
    const auto ok = validate(parsed(words));
    EXPECT_FALSE(ok);
    EXPECT_EQ(ok.error(), message);
  }
}

TEST(Validate, LeavesTheTraceFileAlone) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("kvasir_options_" + std::to_string(getpid()));
  ASSERT_TRUE(validate(parsed({"--kv-trace", path})));
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "kept";
  ASSERT_TRUE(validate(parsed({"--kv-trace", path})));
  EXPECT_EQ(std::filesystem::file_size(path), 4U);
  std::filesystem::remove(path);
}

TEST(Options, EvictsAgreesWithEveryPolicy) {
  for (const auto name : policy_names()) {
    CacheOptions options;
    options.policy = name;
    if (name != "none") options.params.budget = 4096;
    const auto policy = make_policy(options.policy, options.params);
    ASSERT_TRUE(policy) << policy.error();
    EXPECT_EQ(options.evicts(), policy.value().evicts()) << name;
  }
}

TEST(Presets, AreFlagsThatLaterOnesChange) {
  for (const Preset& preset : presets()) {
    CacheOptions options;
    ASSERT_TRUE(apply_preset(preset.name, options)) << preset.name;
    EXPECT_TRUE(validate(options)) << preset.name << ": " << validate(options).error();
    auto words = split_flags(preset.flags);
    ASSERT_TRUE(words);
    EXPECT_EQ(parsed(words.value()), options) << preset.name;
    EXPECT_EQ(parsed({"--kv-preset", std::string(preset.name)}), options);
    EXPECT_EQ(parsed({"--kv-preset", std::string(preset.name), "--kv-sinks", "7"}).params.sinks, 7);
  }
  EXPECT_EQ(refusal({"--kv-preset", "tiny"}),
            "--kv-preset tiny: no such preset; allowed are exact, light, balanced, small, paper");
  std::string names;
  for (const Preset& preset : presets()) {
    names.append(names.empty() ? "" : ", ").append(preset.name);
  }
  const auto help = std::find_if(flag_help().begin(), flag_help().end(),
                                 [](const FlagHelp& flag) { return flag.name == "--kv-preset"; });
  EXPECT_EQ(help->allowed, names);
}

TEST(Restored, IsReadShownAgainAndRefusedWhereNothingIsRestored) {
  for (const char* value : {"off", "1", "4096"}) {
    CacheOptions options =
        parsed({"--kv-format", "residual", "--kv-select", "omnikv", "--kv-restored", value});
    EXPECT_EQ(options.restored, std::string(value) == "off" ? 0 : std::stoi(value));
    EXPECT_NE(describe(options).find(std::string("--kv-restored ") + value), std::string::npos);
    EXPECT_TRUE(validate(options));
    options.select = "dense";
    EXPECT_NE(validate(options).error().find(std::string("--kv-restored ") + value +
                                             ": restored rows are kept with"),
              std::string::npos);
    options.select = "quest";
    options.format = "k5v4";
    EXPECT_FALSE(validate(options));
    options.format = "k5v4,last=2:latent";
    EXPECT_TRUE(validate(options)) << validate(options).error();
  }
  CacheOptions capped = parsed({"--kv-format", "residual", "--kv-select", "omnikv", "--kv-policy",
                                "window", "--kv-budget-mb", "100", "--kv-restored", "64"});
  EXPECT_EQ(validate(capped).error(),
            "--kv-restored 64: no restored rows are kept under --kv-budget-mb; leave it out");
  capped.restored = 0;
  EXPECT_TRUE(validate(capped)) << validate(capped).error();
  for (const char* value : {"0", "-1", "many", "1.5"}) {
    EXPECT_EQ(refusal({"--kv-restored", value}),
              std::string("--kv-restored ") + value +
                  ": allowed is a whole number of rows, 1 or more, or off");
  }
}

TEST(Residual, IsReadAndShownAgain) {
  std::vector<std::string> args{"--kv-format", "residual", "--kv-residual",
                                "s=33,k=1,bits=2,refs=f16,turn=off,metric=halves,per=head"};
  CacheOptions options;
  ASSERT_TRUE(take_flags(args, options));
  EXPECT_EQ(options.residual.stride, 33);
  EXPECT_EQ(options.residual.neighbours, 1);
  EXPECT_EQ(options.residual.bits, 2);
  EXPECT_FALSE(options.residual.int8);
  EXPECT_FALSE(options.residual.turned);
  EXPECT_EQ(options.residual.metric, ReferenceMetric::kHalves);
  EXPECT_TRUE(options.residual.per_head);
  EXPECT_TRUE(validate(options));
  CacheOptions again;
  auto words = split_flags(describe(options));
  ASSERT_TRUE(words);
  ASSERT_TRUE(take_flags(words.value(), again));
  EXPECT_EQ(again, options);
  // The second adds to the first.
  args = {"--kv-residual", "choose=local"};
  ASSERT_TRUE(take_flags(args, again));
  EXPECT_EQ(again.residual.stride, 33);
  EXPECT_EQ(again.residual.choice, ReferenceChoice::kLocal);
}

TEST(Residual, RefusesByName) {
  for (const char* text :
       {"s=0", "s=129", "k=17", "k", "bits=3", "group=48", "turn=yes", "refs=nf4", "choose=best",
        "metric=cosine", "per=layer", "what=1", "s=10,,k=4"}) {
    std::vector<std::string> args{"--kv-residual", text};
    CacheOptions options;
    const auto taken = take_flags(args, options);
    ASSERT_FALSE(taken) << text;
    EXPECT_NE(taken.error().find("allowed are s=1..128"), std::string::npos) << taken.error();
  }
  CacheOptions options;
  options.residual.stride = 5;
  EXPECT_NE(validate(options).error().find("--kv-residual s=5: no layer has"), std::string::npos);
  options.format = "k5v4,last=2:residual";
  EXPECT_TRUE(validate(options));
  options.format = "residual/int8";
  EXPECT_NE(validate(options).error().find("K and V together"), std::string::npos);
  options.format = "residual";
  options.policy = "window";
  options.params.budget = 256;
  EXPECT_TRUE(validate(options));
  options.budget_mb = 64;
  EXPECT_TRUE(validate(options));
}

}  // namespace
}  // namespace kvasir
