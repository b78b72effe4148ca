#include "eval/tasks/needle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eval/tasks/fit.h"
#include "eval/tasks/haystack.h"
#include "eval/tasks/test_texts.h"

namespace kvasir::eval {
namespace {

Sample needle(const NeedleRequest& request, std::string_view essay = {},
              const CountTokens& count = count_words_and_marks) {
  Result<Sample> sample = make_needle_sample(request, {.essay = essay}, count);
  EXPECT_TRUE(sample) << sample.error();
  return sample ? sample.value() : Sample{};
}

TEST(Needle, IsTheSameForTheSameSeed) {
  const Sample sample = needle({.length = 100, .depth_percent = 50, .seed = 3});
  EXPECT_EQ(sample.instructions,
            "A special magic number is hidden in the text below. Remember it, you will be asked "
            "for it at the end.\n\n");
  EXPECT_EQ(
      sample.context,
      "Rain fell on the roof. A cart rolled down the lane. The lamp stayed lit all night. Bread "
      "cooled on the sill. One of the special magic numbers for lakobi-zodiru is: 2850294. The "
      "brook ran slow and clear. Birds settled on the wire. The gate swung shut. Dust.");
  EXPECT_EQ(
      sample.questions[0].text,
      "\n\nWhat is the special magic number for lakobi-zodiru mentioned in the provided text?");
  EXPECT_EQ(sample.questions[0].answer_prefix,
            "The special magic number for lakobi-zodiru mentioned in the provided text is");
  EXPECT_EQ(sample.questions[0].references, std::vector<std::string>{"2850294"});
  EXPECT_EQ(sample.id, "number-100-50-3");
  EXPECT_EQ(sample.tags.dump(),
            R"({"length":100,"tokens":100,"depth":50.0,"seed":3,"kind":"number"})");
  EXPECT_NE(needle({.length = 100, .seed = 4}).context, sample.context);
  EXPECT_NE(needle({.length = 100, .depth_percent = 51, .seed = 3}).questions[0].references,
            sample.questions[0].references);
}

class NeedleLength : public testing::TestWithParam<int32_t> {};

TEST_P(NeedleLength, AndDepthAreHit) {
  const std::string essay = made_up_essay();
  const CountTokens counts[] = {count_words_and_marks, count_bytes};
  for (const CountTokens& count : counts) {
    for (const std::string_view text : {std::string_view(), std::string_view(essay)}) {
      for (const double depth : {0.0, 10.0, 37.5, 50.0, 90.0, 100.0}) {
        const Sample sample = needle({.length = GetParam(), .depth_percent = depth}, text, count);
        EXPECT_LE(sample_tokens(sample, count), GetParam());
        EXPECT_GE(sample_tokens(sample, count), 0.98 * GetParam());
        const size_t at = sample.context.find("One of the special magic");
        ASSERT_NE(at, std::string::npos);
        const size_t end = sample.context.find(".", at) + 1;
        const std::string_view context = sample.context;
        const int32_t before = count(context.substr(0, at));
        const int32_t after = count(context.substr(end));
        EXPECT_NEAR(100.0 * before / (before + after), depth, 2) << GetParam();
        EXPECT_TRUE(at == 0 || std::string_view(".!?").find(context[at - 2]) < 3);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, NeedleLength, testing::Values(1024, 4096, 16'384));

TEST(Needle, StandsInTheContextOnce) {
  const std::string essay = made_up_essay();
  for (const ValueKind kind :
       {ValueKind::kNumber, ValueKind::kWord, ValueKind::kUuid, ValueKind::kDigits64}) {
    const Sample sample = needle({.length = 2000, .kind = kind}, essay);
    const Question& question = sample.questions[0];
    ASSERT_EQ(question.references.size(), 1U);
    EXPECT_EQ(occurrences(sample.context, question.references[0]), 1U);
    EXPECT_EQ(question.metric, "all_found");
    EXPECT_EQ(sample.tags["kind"], name_of(kind));
    const bool is_long = kind == ValueKind::kUuid || kind == ValueKind::kDigits64;
    EXPECT_EQ(question.max_new_tokens, is_long ? 128 : 32);
  }
}

TEST(Needle, TakesWordsFromTheList) {
  const std::vector<std::string> words = {"alpha", "bravo"};
  const Result<Sample> sample =
      make_needle_sample({.length = 500, .kind = ValueKind::kWord}, {.words = words}, count_bytes);
  ASSERT_TRUE(sample) << sample.error();
  const std::string& value = sample.value().questions[0].references[0];
  EXPECT_TRUE(value.starts_with("alpha-") || value.starts_with("bravo-")) << value;
}

TEST(Needle, RefusesWhatDoesNotFit) {
  const auto error_of = [](const NeedleRequest& request) {
    return make_needle_sample(request, {}, count_words_and_marks).error();
  };
  EXPECT_EQ(error_of({.length = 20}),
            "needle: found length 20, the smallest possible is 64 tokens");
  EXPECT_EQ(error_of({.depth_percent = 101}), "needle: found depth 101, expected 0 to 100 percent");
  EXPECT_NE(error_of({.depth_percent = -1}), "");
}

}  // namespace
}  // namespace kvasir::eval
