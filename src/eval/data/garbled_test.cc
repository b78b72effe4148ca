// Lines that were cut or damaged: every loader answers with a line of text or with samples, and
// never with anything worse.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "eval/data/data_set.h"
#include "eval/data/test_files.h"

namespace kvasir::eval {
namespace {

struct Case {
  const char* set;
  const char* name;
};

constexpr Case kCases[] = {{"longbench", "longbench.jsonl"},
                           {"longbench_e", "longbench_e.jsonl"},
                           {"scbench", "scbench_choice_eng.jsonl"},
                           {"scbench", "scbench_mf.jsonl"},
                           {"scbench", "scbench_summary_with_needles.jsonl"},
                           {"aime", "aime.jsonl"}};

std::string first_line_of(const Case& which) {
  const std::string text = read_file(sample_path(which.name));
  return text.substr(0, text.find('\n'));
}

// Loads `text`; an error must name the file and be one line.
bool loads(const Case& which, const TemporaryFile& file, const std::string& text) {
  file.write(text);
  const auto samples = load_data(which.set, file.path(), {});
  if (samples) {
    EXPECT_FALSE(samples.value().empty());
    for (const auto& sample : samples.value()) EXPECT_FALSE(sample.questions.empty());
    return true;
  }
  EXPECT_EQ(samples.error().find(file.path()), 0U) << samples.error();
  EXPECT_EQ(samples.error().find('\n'), std::string::npos) << samples.error();
  return false;
}

TEST(Garbled, EveryPrefixIsRefused) {
  for (const auto& which : kCases) {
    const std::string line = first_line_of(which);
    const TemporaryFile file("", which.name);
    for (size_t length = 0; length < line.size(); ++length) {
      EXPECT_FALSE(loads(which, file, line.substr(0, length))) << which.name << " " << length;
    }
    EXPECT_TRUE(loads(which, file, line)) << which.name;
  }
}

TEST(Garbled, FlippedBytesAreRefusedOrRead) {
  std::mt19937_64 random(11);
  int refused = 0;
  constexpr int kRounds = 250;
  for (const auto& which : kCases) {
    const std::string line = first_line_of(which);
    const TemporaryFile file("", which.name);
    for (int round = 0; round < kRounds; ++round) {
      std::string damaged = line;
      for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
        damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
      }
      if (!loads(which, file, damaged)) ++refused;
    }
  }
  // Most single bytes of a text may be others; keys, quotes and UTF-8 may not.
  EXPECT_GT(refused, kRounds);
  EXPECT_LT(refused, kRounds * 6);
}

// Values of every kind in every field, and fields that are missing.
TEST(Garbled, OtherValuesAreRefusedOrRead) {
  const nlohmann::json others[] = {nullptr,
                                   true,
                                   -1,
                                   1.5,
                                   1e300,
                                   "",
                                   "x",
                                   nlohmann::json::array(),
                                   nlohmann::json::object(),
                                   {1, "x"},
                                   {{{"input", 1}}}};
  for (const auto& which : kCases) {
    const auto right = nlohmann::json::parse(first_line_of(which));
    const TemporaryFile file("", which.name);
    int refused = 0;
    for (const auto& [key, value] : right.items()) {
      for (const auto& other : others) {
        auto changed = right;
        changed[key] = other;
        if (!loads(which, file, changed.dump())) ++refused;
      }
      auto missing = right;
      missing.erase(key);
      loads(which, file, missing.dump());
    }
    EXPECT_GT(refused, 10) << which.name;
  }
}

TEST(Garbled, DeepNestingIsRefused) {
  const TemporaryFile file("");
  constexpr size_t kDepth = 200'000;
  std::string objects;
  for (size_t i = 0; i < kDepth; ++i) objects += "{\"a\":";
  EXPECT_FALSE(loads({"aime", ""}, file, objects));
  const std::string arrays = std::string(kDepth, '[') + std::string(kDepth, ']');
  EXPECT_FALSE(loads({"aime", ""}, file, "{\"problem\": " + arrays + "}"));
}

TEST(Garbled, BracketsInStringsAreNoNesting) {
  const TemporaryFile file("");
  const std::string brackets = "\\\"" + std::string(1000, '[');
  EXPECT_TRUE(loads({"aime", ""}, file, "{\"problem\": \"" + brackets + "\", \"answer\": 1}"));
}

}  // namespace
}  // namespace kvasir::eval
