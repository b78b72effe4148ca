#include "eval/tasks/kvretrieval.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "eval/tasks/fit.h"
#include "eval/tasks/test_texts.h"

namespace kvasir::eval {
namespace {

TEST(KeyValue, AsksForSpreadPairsOfOneObject) {
  const Result<Sample> made =
      make_key_value_sample({.length = 4096, .questions = 8}, count_words_and_marks);
  ASSERT_TRUE(made) << made.error();
  const Sample& sample = made.value();
  const auto object = nlohmann::ordered_json::parse(sample.context);
  ASSERT_GT(object.size(), 100U);
  ASSERT_EQ(sample.questions.size(), 8U);
  std::set<size_t> eighths;
  std::set<std::string> ids;
  bool in_order = true;
  size_t last = 0;
  for (const Question& question : sample.questions) {
    const size_t quote = question.text.find('"');
    const std::string key = question.text.substr(quote + 1, 36);
    ASSERT_TRUE(object.contains(key)) << question.text;
    EXPECT_EQ(question.references, std::vector<std::string>{object[key]});
    EXPECT_EQ(occurrences(sample.context, question.references[0]), 1U);
    EXPECT_EQ(question.metric, "all_found");
    const size_t at = sample.context.find(key);
    in_order = in_order && at >= last;
    last = at;
    eighths.insert((at + 40) * 8 / sample.context.size());
    ids.insert(question.id);
  }
  EXPECT_GE(eighths.size(), 7U);
  EXPECT_EQ(ids.size(), 8U);
  EXPECT_FALSE(in_order);
}

TEST(KeyValue, HitsTheLengthAndIsTheSameForTheSameSeed) {
  for (const int32_t length : {1024, 4096, 16'384}) {
    for (const auto count : {count_words_and_marks, count_bytes}) {
      const Result<Sample> sample = make_key_value_sample({.length = length}, count);
      ASSERT_TRUE(sample) << sample.error();
      EXPECT_NEAR(sample_tokens(sample.value(), count), length, 0.02 * length);
      EXPECT_EQ(sample.value().context,
                make_key_value_sample({.length = length}, count).value().context);
      EXPECT_NE(sample.value().context,
                make_key_value_sample({.length = length, .seed = 2}, count).value().context);
    }
  }
}

TEST(KeyValue, RefusesWhatDoesNotFit) {
  EXPECT_EQ(make_key_value_sample({.length = 20}, count_words_and_marks).error(),
            "kv_retrieval: found length 20, the smallest possible is 166 tokens");
  EXPECT_EQ(make_key_value_sample({.questions = 0}, count_bytes).error(),
            "kv_retrieval: found 0 questions, expected 1 to 1000");
}

}  // namespace
}  // namespace kvasir::eval
