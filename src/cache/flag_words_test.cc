// Options as words, words as text, and back.
#include "cache/flag_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "cache/test_flags.h"

namespace kvasir {
namespace {

using testing::parsed;
using testing::Words;

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

}  // namespace
}  // namespace kvasir
