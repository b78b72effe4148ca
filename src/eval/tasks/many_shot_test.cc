#include "eval/tasks/many_shot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "eval/tasks/fit.h"
#include "eval/tasks/test_texts.h"

namespace kvasir::eval {
namespace {

std::string ending_of(const std::string& item) { return item.substr(item.find('-') + 1); }

struct Shots {
  std::map<std::string, std::string> label;  // of an ending
  std::map<std::string, int> count;          // of an ending
  std::set<std::string> items;
};

Shots shots_of(const std::string& context) {
  Shots shots;
  std::istringstream stream(context);
  std::string item;
  std::string label;
  std::string word;
  while (stream >> word >> item >> word >> label) {
    EXPECT_TRUE(shots.items.insert(item).second) << "twice: " << item;
    const auto [known, is_new] = shots.label.try_emplace(ending_of(item), label);
    EXPECT_EQ(known->second, label) << "the rule contradicts itself";
    ++shots.count[ending_of(item)];
  }
  return shots;
}

TEST(ManyShot, FollowsARuleThatTheShotsTell) {
  const Result<Sample> made =
      make_many_shot_sample({.length = 2000, .questions = 12}, count_words_and_marks);
  ASSERT_TRUE(made) << made.error();
  const Shots shots = shots_of(made.value().context);
  EXPECT_EQ(made.value().tags["shots"], shots.items.size());
  ASSERT_EQ(shots.count.size(), 12U);
  int fewest = 1000;
  int most = 0;
  for (const auto& [ending, count] : shots.count) {
    fewest = std::min(fewest, count);
    most = std::max(most, count);
  }
  EXPECT_LE(most - fewest, 1);
  EXPECT_GE(fewest, 2);
  std::set<std::string> asked;
  for (const Question& question : made.value().questions) {
    const std::string item = question.text.substr(question.text.rfind(' ') + 1);
    EXPECT_EQ(shots.items.count(item), 0U) << "asked for a shot";
    EXPECT_EQ(question.references, std::vector<std::string>{shots.label.at(ending_of(item))});
    EXPECT_EQ(question.classes.size(), 6U);
    EXPECT_EQ(std::count(question.classes.begin(), question.classes.end(), question.references[0]),
              1);
    EXPECT_EQ(question.metric, "class_match");
    asked.insert(ending_of(item));
  }
  EXPECT_EQ(asked.size(), 12U);
}

TEST(ManyShot, HitsTheLengthAndIsTheSameForTheSameSeed) {
  for (const int32_t length : {1024, 4096, 16'384}) {
    for (const auto count : {count_words_and_marks, count_bytes}) {
      const Result<Sample> sample = make_many_shot_sample({.length = length}, count);
      ASSERT_TRUE(sample) << sample.error();
      EXPECT_NEAR(sample_tokens(sample.value(), count), length, 0.02 * length);
      EXPECT_EQ(sample.value().context,
                make_many_shot_sample({.length = length}, count).value().context);
      EXPECT_NE(sample.value().context,
                make_many_shot_sample({.length = length, .seed = 2}, count).value().context);
    }
  }
}

TEST(ManyShot, RefusesWhatDoesNotFit) {
  EXPECT_EQ(make_many_shot_sample({.length = 100}, count_words_and_marks).error(),
            "many_shot: found length 100, the smallest possible is 225 tokens");
  EXPECT_EQ(make_many_shot_sample({.questions = 13}, count_bytes).error(),
            "many_shot: found 13 questions, expected 1 to 12");
}

}  // namespace
}  // namespace kvasir::eval
