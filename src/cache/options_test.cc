#include "cache/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "cache/flag_words.h"
#include "cache/presets.h"
#include "format/row_codec.h"

namespace kvasir {
namespace {

using Words = std::vector<std::string>;

/// Parses `words`, expects success, returns the options; what is left goes to `rest`.
CacheOptions parsed(Words words, Words* rest = nullptr) {
  CacheOptions options;
  const auto ok = take_flags(words, options);
  EXPECT_TRUE(ok) << ok.error();
  if (rest != nullptr) *rest = words;
  return options;
}

/// All registered names, as lists of allowed ones have them.
std::string policies() {
  std::string names;
  for (const auto name : policy_names()) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

std::string refusal(Words words) {
  CacheOptions options;
  const Words before = words;
  const auto ok = take_flags(words, options);
  EXPECT_FALSE(ok) << "accepted";
  EXPECT_EQ(words, before) << "a failure changed the arguments";
  EXPECT_EQ(options, CacheOptions{}) << "a failure changed the options";
  return ok.error();
}

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

// What `words` are refused with, read and checked.
std::string invalid(const Words& words) {
  const Result<void> ok = validate(parsed(words));
  return ok ? "" : ok.error();
}

TEST(Validate, SelectionsAndWhatTheyCannotBeJoinedWith) {
  for (const char* method : {"omnikv", "quest"}) {
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
  EXPECT_EQ(invalid({"--kv-select", "top"}),
            "--kv-select top: no such selection; allowed are dense, omnikv, quest");
  EXPECT_EQ(
      invalid({"--kv-keep", "5"}),
      "--kv-keep: a step reads every stored token (--kv-select dense); choose omnikv or quest");
  EXPECT_EQ(invalid({"--kv-select", "omnikv", "--kv-full-layers", "1"}),
            "--kv-full-layers 1: layer 0 must be among them with --kv-select omnikv");
  EXPECT_EQ(parsed({"--kv-select", "quest"}).mover(), "--kv-select quest");
  EXPECT_TRUE(parsed({"--kv-select", "quest"}).moves_rows());
}

TEST(Describe, DefaultsAreShort) {
  EXPECT_EQ(describe({}), "--kv-policy none");
  EXPECT_EQ(describe(parsed({"--kv-policy", "window", "--kv-budget", "512"})),
            "--kv-policy window --kv-budget 512");
}

TEST(Describe, QuotesWhatNeedsIt) {
  CacheOptions options;
  options.trace_path = "it's a trace";
  EXPECT_EQ(describe(options), "--kv-policy none --kv-trace 'it'\\''s a trace'");
  options.trace_path = "--odd";
  EXPECT_EQ(describe(options), "--kv-policy none --kv-trace=--odd");
}

std::string random_text(std::mt19937& random, size_t longest, std::string_view alphabet) {
  std::string text(std::uniform_int_distribution<size_t>(0, longest)(random), ' ');
  for (char& c : text) {
    c = alphabet[std::uniform_int_distribution<size_t>(0, alphabet.size() - 1)(random)];
  }
  return text;
}

TEST(Describe, ReadsBackAsTheSameOptions) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(0, 1);
  const auto coin = [&] { return random() % 2 == 0; };
  const auto count = [&](int32_t least) {
    return std::uniform_int_distribution<int32_t>(least, 100000)(random);
  };
  for (int round = 0; round < 500; ++round) {
    CacheOptions options;
    options.policy = coin() ? "conf" : "a b\"c";
    if (coin()) options.params.budget = count(1);
    if (coin()) options.budget_mb = count(1);
    if (coin()) options.params.high = count(1);
    if (coin()) options.params.low = count(1);
    if (coin()) options.params.tau = unit(random);
    if (coin()) options.params.alpha = unit(random);
    if (coin()) options.params.lambda = unit(random);
    if (coin()) options.params.protect = count(0);
    if (coin()) {
      options.params.budget = 0;
      options.params.budget_percent = 100 * (1 - unit(random));
    }
    if (coin()) options.params.pyramid = Pyramid{1 - unit(random), count(1)};
    if (coin()) options.params.heads = HeadReduction::kMax;
    if (coin()) options.params.scale = static_cast<AttentionScale>(random() % 3);
    if (coin()) options.params.shrink = count(0);
    if (coin()) options.params.burst = count(1);
    if (coin()) options.params.seed = count(0);
    if (coin()) options.params.schedule_path = random_text(random, 12, "ab/-'\"\\ $");
    options.params.blend = coin();
    options.params.values = coin();
    options.params.by_age = coin();
    if (coin()) options.params.sinks = count(0);
    if (coin()) options.prefill = PrefillMode::kStream;
    if (coin()) options.positions = coin() ? PositionMode::kCache : PositionMode::kOriginal;
    if (coin()) options.trace_path = random_text(random, 12, "ab/-'\"\\ $\t=%\xc3\xa9");
    options.stats = coin();
    options.select = coin() ? "dense" : "quest";
    if (coin()) options.select_params.keep = Keep{count(1), Keep{}.percent};
    if (coin()) options.select_params.keep = Keep{0, 100 * (1 - unit(random))};
    if (coin()) options.select_params.full_layers = {0, 1, count(2)};
    auto words = split_flags(describe(options));
    ASSERT_TRUE(words) << words.error();
    Words rest;
    EXPECT_EQ(parsed(words.value(), &rest), options) << describe(options);
    EXPECT_TRUE(rest.empty());
  }
}

Words split(std::string_view text) {
  const auto words = split_flags(text);
  EXPECT_TRUE(words) << words.error();
  return words ? words.value() : Words{};
}

TEST(SplitFlags, AsAShell) {
  EXPECT_EQ(split(""), Words{});
  EXPECT_EQ(split(" \t\n "), Words{});
  EXPECT_EQ(split(" --kv-policy  conf\t--kv-stats\n"),
            (Words{"--kv-policy", "conf", "--kv-stats"}));
  EXPECT_EQ(split("''"), Words{""});
  EXPECT_EQ(split("a '' \"\" b"), (Words{"a", "", "", "b"}));
  EXPECT_EQ(split("--kv-trace='a b'"), Words{"--kv-trace=a b"});
  EXPECT_EQ(split("'a\\b'"), Words{"a\\b"});
  EXPECT_EQ(split("\"a'b\" 'a\"b'"), (Words{"a'b", "a\"b"}));
  EXPECT_EQ(split("a\\ b \\' \\\\ \\n"), (Words{"a b", "'", "\\", "n"}));
  EXPECT_EQ(split(R"("\" \\ \$ \` \n")"), Words{"\" \\ $ ` \\n"});
  EXPECT_EQ(split("a'b'\"c\"\\d"), Words{"abcd"});
  EXPECT_EQ(split("$HOME * ~ #x"), (Words{"$HOME", "*", "~", "#x"}));
}

TEST(SplitFlags, Refusals) {
  EXPECT_EQ(split_flags("--kv-trace 'a b").error(),
            "KVASIR_FLAGS has an open quote ': --kv-trace 'a b");
  EXPECT_EQ(split_flags("x \"a' b").error(), "KVASIR_FLAGS has an open quote \": x \"a' b");
  EXPECT_EQ(split_flags("\"a\\\"").error(), "KVASIR_FLAGS has an open quote \": \"a\\\"");
  EXPECT_EQ(split_flags("abc \\").error(), "KVASIR_FLAGS ends with a backslash: abc \\");
}

TEST(SplitFlags, QuotedWordsComeBack) {
  std::mt19937 random(23);
  for (int round = 0; round < 2000; ++round) {
    Words words(random() % 6);
    std::string text;
    for (auto& word : words) {
      word = random_text(random, 10, "ab-'\"\\ \t\n$`=\xc3\xa9");
      text.append(" ").append(quote_word(word));
    }
    EXPECT_EQ(split(text), words) << text;
  }
}

// Any text is split or refused in one line, and any words are taken, left or refused: nothing is
// lost, nothing but our own names disappears.
TEST(Fuzz, AnyTextAndAnyWords) {
  Words pieces = {"--kv-unified", "-m", "x", "", "25%", "0.5", "64", "conf", "--", "=", "-1"};
  std::set<std::string> ours;
  for (const auto& flag : flag_help()) ours.insert(std::string(flag.name));
  pieces.insert(pieces.end(), ours.begin(), ours.end());
  std::mt19937 random(99);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto n = random() % 8; n > 0; --n) {
      text += pieces[random() % pieces.size()];
      text += std::string_view(" =  '\"\\\n")[random() % 8];
      if (random() % 4 == 0) text += random_text(random, 4, "a-'\"\\ =\xff%");
    }
    auto words = split_flags(text);
    if (!words) {
      EXPECT_TRUE(words.error().starts_with("KVASIR_FLAGS "));
      continue;
    }
    CacheOptions options;
    const Words before = words.value();
    const auto ok = take_flags(words.value(), options);
    if (!ok) {
      ++refused;
      EXPECT_EQ(words.value(), before);
      EXPECT_TRUE(ok.error().starts_with("--kv-")) << ok.error();
      continue;
    }
    ++accepted;
    // The rest is a subsequence without any of our names.
    auto at = before.begin();
    for (const auto& word : words.value()) {
      at = std::find(at, before.end(), word);
      ASSERT_NE(at, before.end()) << text;
      ++at;
      EXPECT_FALSE(ours.contains(word.substr(0, word.find('=')))) << text;
    }
    const auto again = split_flags(describe(options));
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(parsed(again.value()), options) << text;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
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
      std::filesystem::path(testing::TempDir()) / ("kvasir_options_" + std::to_string(getpid()));
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

TEST(Help, TextNamesEveryFlagWithDefaultAndAllowedValues) {
  const std::string text = flag_help_text();
  for (const auto& flag : flag_help()) {
    std::string expected(flag.name);
    expected.append(flag.value.empty() ? "" : " ").append(flag.value);
    expected.append("\n    ").append(flag.text).append("\n");
    EXPECT_EQ(flag.value.empty(), flag.allowed.empty()) << flag.name;
    EXPECT_EQ(flag.value.empty(), flag.initial.empty()) << flag.name;
    if (!flag.value.empty()) {
      expected.append("    default: ").append(flag.initial);
      expected.append("; allowed: ").append(flag.allowed).append("\n");
    }
    EXPECT_NE(text.find(expected), std::string::npos) << text << "lacks\n" << expected;
  }
}

// A default in words is the one in force: giving it changes nothing.
TEST(Help, InitialValuesAreTheDefaults) {
  const std::set<std::string_view> in_words = {
      "--kv-budget",  "--kv-high",    "--kv-low",       "--kv-alpha",  "--kv-lambda",
      "--kv-protect", "--kv-pyramid", "--kv-shrink",    "--kv-scale",  "--kv-schedule",
      "--kv-trace",   "--kv-stats",   "--kv-positions", "--kv-preset", "--kv-blend",
      "--kv-values",  "--kv-by-age",  "--kv-budget-mb", "--kv-keep",   "--kv-full-layers",
      "--kv-restored"};
  for (const auto& flag : flag_help()) {
    if (in_words.contains(flag.name)) continue;
    EXPECT_EQ(parsed({std::string(flag.name), std::string(flag.initial)}), CacheOptions{})
        << flag.name;
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

TEST(Help, AllowedFormatsAreTheRegisteredOnes) {
  const auto help = std::find_if(flag_help().begin(), flag_help().end(),
                                 [](const FlagHelp& flag) { return flag.name == "--kv-format"; });
  std::set<std::string> named;
  std::istringstream words{std::string(help->allowed)};
  for (std::string word; words >> word;) named.insert(word.substr(0, word.find(',')));
  std::set<std::string> registered;
  for (const RowFormat& format : row_formats()) registered.emplace(format.name);
  registered.insert({"residual", "latent"});  // tiers, not codecs of rows
  EXPECT_EQ(named, registered);
}

TEST(Help, AllowedPoliciesAreTheRegisteredOnes) { EXPECT_EQ(flag_help()[0].allowed, policies()); }

// The manual's tables are exactly what the program says of itself.
TEST(Help, ManualAgrees) {
  std::ifstream file(KVASIR_SOURCE_DIR "/docs/flags.md");
  std::stringstream manual;
  manual << file.rdbuf();
  std::string table = "| flag | meaning | default | allowed |\n|---|---|---|---|\n";
  for (const auto& flag : flag_help()) {
    table.append("| `").append(flag.name).append(flag.value.empty() ? "" : " ");
    table.append(flag.value).append("` | ").append(flag.text).append(" | ");
    table.append(flag.initial.empty() ? "off" : flag.initial).append(" | ");
    table.append(flag.allowed.empty() ? "takes no value" : flag.allowed).append(" |\n");
  }
  EXPECT_NE(manual.str().find("\n\n" + table + "\n"), std::string::npos)
      << "docs/flags.md lacks this table:\n"
      << table;
}

}  // namespace
}  // namespace kvasir
