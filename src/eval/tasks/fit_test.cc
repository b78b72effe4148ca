#include "eval/tasks/fit.h"

#include <gtest/gtest.h>

#include <string>

#include "eval/tasks/test_texts.h"

namespace kvasir::eval {
namespace {

Sample repeated(const std::string& unit, int64_t units) {
  Sample sample;
  sample.instructions = "Read this.";
  sample.questions.resize(1);
  sample.questions[0].text = "What was it?";
  for (int64_t i = 0; i < units; ++i) sample.context += unit;
  return sample;
}

TEST(Fit, CountsTheFirstQuestionOnly) {
  Sample sample = repeated("a b c ", 2);
  EXPECT_EQ(sample_tokens(sample, count_words_and_marks), 3 + 6 + 4);
  sample.questions.push_back(sample.questions[0]);
  sample.questions.back().text = "And what was the other one?";
  EXPECT_EQ(sample_tokens(sample, count_words_and_marks), 3 + 6 + 4);
}

TEST(Fit, HitsTheLengthWithFewCounts) {
  for (const int32_t length : {64, 1000, 20'000, 100'000}) {
    for (const std::string unit : {"a ", "one two three ", "a very long, long, long word; "}) {
      int32_t calls = 0;
      const CountTokens count = [&](std::string_view text) {
        ++calls;
        return count_words_and_marks(text);
      };
      const Result<Sample> sample =
          fit_sample({.name = "x", .length = length, .least = 1, .most = length}, count,
                     [&](int64_t units) { return repeated(unit, units); });
      ASSERT_TRUE(sample) << sample.error();
      const int32_t tokens = sample_tokens(sample.value(), count_words_and_marks);
      EXPECT_LE(calls, 10) << length << unit;
      EXPECT_LE(tokens, length);
      EXPECT_GE(tokens, length - std::max(9, length / 50)) << unit;
      EXPECT_EQ(sample.value().tags["length"], length);
      EXPECT_EQ(sample.value().tags["tokens"], tokens);
    }
  }
}

TEST(Fit, NeverCountsOftenEvenIfUnitsAreUneven) {
  // The pace changes by a factor of twenty half-way.
  int32_t calls = 0;
  const CountTokens count = [&](std::string_view text) {
    ++calls;
    return count_words_and_marks(text);
  };
  const Result<Sample> sample = fit_sample(
      {.name = "x", .length = 50'000, .least = 1, .most = 50'000}, count, [](int64_t units) {
        Sample grown = repeated("a ", std::min<int64_t>(units, 20'000));
        for (int64_t i = 20'000; i < units; ++i) grown.context += std::string(20, '.');
        return grown;
      });
  ASSERT_TRUE(sample) << sample.error();
  EXPECT_LE(calls, 20);
  EXPECT_NEAR(sample.value().tags["tokens"].get<double>(), 50'000, 1000);
}

TEST(Fit, TakesTheNearestOfCoarseUnits) {
  // 7 tokens outside; one unit has 100, so that 107 and 207 can be had.
  const auto tokens_of = [](int32_t length) {
    const Result<Sample> sample = fit_sample(
        {.name = "x", .length = length, .least = 1, .most = length}, count_words_and_marks,
        [](int64_t units) { return repeated(std::string(100, '.'), units); });
    return sample ? sample.value().tags["tokens"].get<int32_t>() : -1;
  };
  EXPECT_EQ(tokens_of(207), 207);
  EXPECT_EQ(tokens_of(204), 207);  // 1.5 % too long, but the nearest
  EXPECT_EQ(tokens_of(190), 107);  // 207 would be 9 % too long
  EXPECT_EQ(tokens_of(106), -1);
}

TEST(Fit, NamesTheSmallestAndTheLargest) {
  const BuildSample build = [](int64_t units) { return repeated("word ", units); };
  const auto error_of = [&](int32_t length) {
    return fit_sample({.name = "some_task", .length = length, .least = 10, .most = 50},
                      count_words_and_marks, build)
        .error();
  };
  EXPECT_EQ(error_of(16), "some_task: found length 16, the smallest possible is 17 tokens");
  EXPECT_EQ(error_of(17), "");
  EXPECT_EQ(error_of(57), "");
  EXPECT_EQ(error_of(80),
            "some_task: found length 80, but what it is made of ends after 57 tokens");
  EXPECT_NE(error_of(-5), "");
}

}  // namespace
}  // namespace kvasir::eval
