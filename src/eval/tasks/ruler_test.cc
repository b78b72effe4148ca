#include "eval/tasks/ruler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "eval/tasks/fit.h"
#include "eval/tasks/haystack.h"
#include "eval/tasks/test_texts.h"
#include "eval/tasks/values.h"

namespace kvasir::eval {

// How GoogleTest names a task in messages.
void PrintTo(const RulerTask& task,
             std::ostream* stream) {  // NOLINT(readability-identifier-naming)
  *stream << task.name;
}

namespace {

// The material of all tests, read once.
struct World {
  std::string essay = made_up_essay();
  QaSource squad = parse_qa(made_up_squad().dump(), "squad").value();
  QaSource hotpot = parse_qa(made_up_hotpot().dump(), "hotpot").value();
  Material material{.essay = essay, .words = {}, .qa_1 = &squad, .qa_2 = &hotpot};
};

const World& world() {
  static const World kWorld;
  return kWorld;
}

Sample ruler(std::string_view task, int32_t length, uint64_t seed = 1,
             const CountTokens& count = count_words_and_marks) {
  const Result<Sample> sample = make_ruler_sample({.task = task,
                                                   .length = length,
                                                   .seed = seed,
                                                   .material = world().material,
                                                   .count_tokens = count});
  EXPECT_TRUE(sample) << sample.error();
  Sample empty;
  empty.questions.resize(1);
  return sample ? sample.value() : empty;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::map<std::string, int> frequencies(const std::vector<std::string>& words) {
  std::map<std::string, int> counts;
  for (const std::string& word : words) ++counts[word];
  return counts;
}

struct FoundNeedle {
  std::string key;
  std::string value;
};

// All needles of a context in their order.
std::vector<FoundNeedle> needles_in(const std::string& context) {
  constexpr std::string_view kFor = " for ";
  constexpr std::string_view kIs = " is: ";
  std::vector<FoundNeedle> needles;
  for (size_t at = context.find("One of the special magic "); at != std::string::npos;
       at = context.find("One of the special magic ", at + 1)) {
    const size_t key = context.find(kFor, at) + kFor.size();
    const size_t is = context.find(kIs, key);
    const size_t value = is + kIs.size();
    needles.push_back({.key = context.substr(key, is - key),
                       .value = context.substr(value, context.find('.', value) - value)});
  }
  return needles;
}

TEST(Ruler, HasThirteenTasks) {
  std::set<std::string_view> names;
  for (const RulerTask& task : ruler_tasks()) names.insert(task.name);
  EXPECT_EQ(names.size(), 13U);
  const Result<Sample> sample = make_ruler_sample(
      {.task = "niah", .material = world().material, .count_tokens = count_bytes});
  EXPECT_EQ(sample.error().substr(0, 62),
            "no RULER task 'niah', expected one of: niah_single_1, niah_sin");
}

class RulerTasks : public testing::TestWithParam<RulerTask> {};

TEST_P(RulerTasks, HitTheLength) {
  for (const int32_t length : {1024, 4096, 16'384}) {
    for (const auto count : {count_words_and_marks, count_bytes}) {
      int32_t calls = 0;
      const Sample sample = ruler(GetParam().name, length, 5, [&](std::string_view text) {
        ++calls;
        return count(text);
      });
      EXPECT_NEAR(sample_tokens(sample, count), length, 0.02 * length);
      EXPECT_LE(calls, 20);
      EXPECT_EQ(sample.tags.value("tokens", 0), sample_tokens(sample, count));
      EXPECT_EQ(sample.task, GetParam().name);
    }
  }
}

TEST_P(RulerTasks, AreTheSameForTheSameSeed) {
  const Sample sample = ruler(GetParam().name, 2000, 8);
  EXPECT_EQ(sample.context, ruler(GetParam().name, 2000, 8).context);
  const Sample other = ruler(GetParam().name, 2000, 9);
  EXPECT_NE(sample.context, other.context);
  EXPECT_NE(sample.questions[0].references, other.questions[0].references);
}

TEST_P(RulerTasks, RefuseLengthsTooSmall) {
  const auto make = [](int32_t length) {
    return make_ruler_sample({.task = GetParam().name,
                              .length = length,
                              .material = world().material,
                              .count_tokens = count_words_and_marks});
  };
  const std::string error = make(10).error();
  const std::string before =
      std::string(GetParam().name) + ": found length 10, the smallest possible is ";
  ASSERT_EQ(error.substr(0, before.size()), before) << error;
  // The length that it names is possible, one token less is not.
  const int32_t smallest = std::stoi(error.substr(before.size()));
  EXPECT_TRUE(make(smallest)) << make(smallest).error();
  EXPECT_FALSE(make(smallest - 1));
}

TEST_P(RulerTasks, HoldTheirAnswers) {
  const std::string_view name = GetParam().name;
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const Sample sample = ruler(name, 3000, seed);
    const Question& question = sample.questions[0];
    const bool is_qa = name.starts_with("qa");
    EXPECT_EQ(question.metric, is_qa ? "any_found" : "all_found");
    ASSERT_FALSE(question.references.empty());
    if (!name.starts_with("niah") && !is_qa) continue;  // tests of their own below
    for (const std::string& reference : question.references) {
      EXPECT_EQ(occurrences(lower_case(sample.context), lower_case(reference)), 1U) << reference;
      EXPECT_EQ(question.text.find(reference), std::string::npos);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RulerTasks,
                         testing::ValuesIn(ruler_tasks().begin(), ruler_tasks().end()),
                         [](const auto& task) { return std::string(task.param.name); });

TEST(Niah, HasAsManyNeedlesAsAsked) {
  const std::map<std::string, std::pair<size_t, size_t>> expected = {
      // needles, references
      {"niah_single_1", {1, 1}},   {"niah_single_2", {1, 1}},   {"niah_single_3", {1, 1}},
      {"niah_multikey_1", {4, 1}}, {"niah_multivalue", {4, 4}}, {"niah_multiquery", {4, 4}}};
  for (const auto& [task, counts] : expected) {
    const Sample sample = ruler(task, 4000);
    EXPECT_EQ(needles_in(sample.context).size(), counts.first) << task;
    EXPECT_EQ(sample.questions[0].references.size(), counts.second) << task;
    EXPECT_EQ(sample.questions[0].max_new_tokens, 128);
  }
}

TEST(Niah, NeedlesOfTheAskedKeysAreTheReferences) {
  for (const RulerTask& task : ruler_tasks()) {
    if (!task.name.starts_with("niah")) continue;
    const Sample sample = ruler(task.name, 4000, 6);
    const Question& question = sample.questions[0];
    std::multiset<std::string> asked;
    std::set<std::string> keys;
    std::set<std::string> values;
    for (const FoundNeedle& needle : needles_in(sample.context)) {
      const bool is_asked = question.text.find(needle.key) != std::string::npos;
      if (is_asked) asked.insert(needle.value);
      keys.insert(needle.key);
      EXPECT_TRUE(values.insert(needle.value).second) << "a value occurs twice";
    }
    EXPECT_EQ(asked,
              std::multiset<std::string>(question.references.begin(), question.references.end()))
        << task.name;
    EXPECT_EQ(keys.size(), task.name == "niah_multivalue" ? 1 : values.size()) << task.name;
  }
}

TEST(Niah, HaystackOfNeedlesHoldsNothingElse) {
  for (const std::string task : {"niah_multikey_2", "niah_multikey_3"}) {
    const Sample sample = ruler(task, 4000);
    const size_t lines = occurrences(sample.context, "\n") + 1;
    EXPECT_EQ(needles_in(sample.context).size(), lines);
    EXPECT_GT(lines, 100U);
  }
}

TEST(Niah, NeedsAnEssayWhereOneBelongs) {
  const Result<Sample> sample = make_ruler_sample(
      {.task = "niah_single_2", .material = Material{}, .count_tokens = count_bytes});
  EXPECT_EQ(sample.error(), "niah_single_2: found no essay text, expected one to hide needles in");
}

TEST(VariableTracking, HandsOneValueOnOverFourHops) {
  const Sample sample = ruler("vt", 2000);
  std::vector<std::string> names;
  std::string value;
  const std::vector<std::string> words = words_of(sample.context);
  for (size_t i = 0; i + 3 < words.size(); ++i) {
    if (words[i] != "VAR" || words[i + 2] != "=") continue;
    if (names.empty()) {
      value = words[i + 3];
    } else {
      EXPECT_EQ(words[i + 3], "VAR");
      EXPECT_EQ(words[i + 4], names.back());
    }
    names.push_back(words[i + 1]);
  }
  EXPECT_EQ(names.size(), 5U);
  EXPECT_EQ(names, sample.questions[0].references);
  EXPECT_NE(sample.questions[0].text.find(" " + value + ","), std::string::npos);
  EXPECT_EQ(sample.questions[0].max_new_tokens, 30);
}

TEST(CommonWords, OccurThirtyTimesAmongThree) {
  for (const auto& [length, common, others] : {std::tuple{2000, 6, 1}, std::tuple{8000, 30, 3}}) {
    const Sample sample = ruler("cwe", length);
    std::vector<std::string> words = words_of(sample.context);
    std::vector<std::string> listed;
    for (size_t i = 0; i < words.size(); i += 2) {
      EXPECT_EQ(words[i], std::to_string(i / 2 + 1) + ".");
      listed.push_back(words[i + 1]);
    }
    const auto& references = sample.questions[0].references;
    EXPECT_EQ(references.size(), 10U);
    for (const auto& [word, count] : frequencies(listed)) {
      const bool is_common =
          std::find(references.begin(), references.end(), word) != references.end();
      EXPECT_EQ(count, is_common ? common : others);
    }
    EXPECT_EQ(sample.questions[0].max_new_tokens, 120);
  }
}

TEST(CommonWords, SaysWhenTheListOfWordsIsTooShort) {
  const std::vector<std::string> words = {"alpha", "bravo", "charlie"};
  const Result<Sample> sample = make_ruler_sample(
      {.task = "cwe", .material = Material{.words = words}, .count_tokens = count_bytes});
  EXPECT_EQ(sample.error().substr(0, 49), "cwe: the list of words is too short: it has 3 wor");
}

TEST(FrequentWords, FallWithTheSquareOfTheirRank) {
  const Sample sample = ruler("fwe", 8000);
  const auto counts = frequencies(words_of(sample.context));
  std::vector<int> sorted;
  for (const auto& [word, count] : counts) sorted.push_back(count);
  std::sort(sorted.rbegin(), sorted.rend());
  EXPECT_EQ(sorted[0], counts.at("..."));
  // The noise has one part, rank r one part in r squared, each rounded down.
  for (size_t rank = 2; rank <= 6; ++rank) {
    EXPECT_NEAR(sorted[rank - 1], sorted[0] / static_cast<double>(rank * rank), 1.001);
  }
  const auto& references = sample.questions[0].references;
  ASSERT_EQ(references.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(counts.at(references[i]), sorted[i + 1]);
  EXPECT_GT(sorted[3], sorted[4]);
  EXPECT_EQ(sample.questions[0].max_new_tokens, 50);
}

TEST(DocumentQuestion, HasItsParagraphsOnceAmongOthers) {
  for (const std::string task : {"qa_1", "qa_2"}) {
    const QaSource& source = task == "qa_1" ? world().squad : world().hotpot;
    std::set<size_t> places;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const Sample sample = ruler(task, 2500, seed);
      const QaItem& item = source.items[seed];
      EXPECT_EQ(sample.questions[0].references, item.answers);
      EXPECT_NE(sample.questions[0].text.find("Question: " + item.question), std::string::npos);
      for (const size_t gold : item.gold) {
        EXPECT_EQ(occurrences(sample.context, source.documents[gold]), 1U);
      }
      // Those of the same article come first: at this length all of HotpotQA's ten are there.
      size_t near = 0;
      for (const size_t other : item.near)
        near += occurrences(sample.context, source.documents[other]);
      EXPECT_GE(near, task == "qa_1" ? 15U : 8U);
      const size_t documents = occurrences(sample.context, "Document ");
      EXPECT_NE(sample.context.find("\nDocument " + std::to_string(documents) + ":\n"),
                std::string::npos);
      places.insert(sample.context.find(source.documents[item.gold[0]]));
    }
    EXPECT_GT(places.size(), 6U) << "the gold paragraph does not move";
  }
}

TEST(DocumentQuestion, SaysWhenThereAreNoQuestionsOrTooFewParagraphs) {
  const Result<Sample> none =
      make_ruler_sample({.task = "qa_1", .material = Material{}, .count_tokens = count_bytes});
  EXPECT_EQ(none.error(),
            "qa_1: found no questions, expected a file in the format of SQuAD or HotpotQA");
  const Result<Sample> few = make_ruler_sample({.task = "qa_2",
                                                .length = 100'000,
                                                .material = world().material,
                                                .count_tokens = count_words_and_marks});
  EXPECT_NE(few.error().find("qa_2: found length 100000, but what it is made of ends after"),
            std::string::npos)
      << few.error();
}

}  // namespace
}  // namespace kvasir::eval
