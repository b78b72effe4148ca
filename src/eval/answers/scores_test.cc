#include "eval/answers/scores.h"

#include <gtest/gtest.h>

namespace kvasir::eval {
namespace {

Sample sample(const std::string& id, int length) {
  Sample one;
  one.task = "needle";
  one.id = id;
  one.tags = {{"length", length}, {"depth", 50}};
  Question question;
  question.id = "1";
  question.references = {"1234"};
  question.metric = "all_found";
  one.questions.push_back(question);
  return one;
}

Json entry(const std::string& setting, const std::string& id, int length,
           const std::string& prediction, AnswerStatus status = AnswerStatus::kOk) {
  const Sample one = sample(id, length);
  Answer answer;
  answer.prediction = prediction;
  answer.bytes = 1000 * length;
  answer.status = status;
  answer.error = status == AnswerStatus::kOk ? "" : "too long";
  return sample_entry({setting, {}}, one, one.questions[0], answer);
}

std::vector<Json> some_entries() {
  return {entry("full", "a", 1, "it is 1234"),
          entry("full", "b", 2, "1234"),
          entry("full", "c", 2, "no idea"),
          entry("window", "a", 1, "1234."),
          entry("window", "b", 2, "4321"),
          entry("window", "c", 2, "1234"),
          entry("window", "d", 4, "", AnswerStatus::kSkipped)};
}

TEST(SampleEntry, HoldsScoreOrError) {
  const auto all = some_entries();
  EXPECT_EQ(all[0].at("score"), 1);
  EXPECT_EQ(all[2].at("score"), 0);
  EXPECT_FALSE(all[0].contains("error"));
  EXPECT_TRUE(all[6].at("score").is_null());
  EXPECT_EQ(all[6].at("status"), "skipped");
  EXPECT_EQ(all[6].at("error"), "too long");
}

TEST(SampleEntry, AnUnknownMetricIsAnError) {
  Sample one = sample("a", 1);
  one.questions[0].metric = "nonsense";
  const Json found = sample_entry({"full", {}}, one, one.questions[0], Answer{});
  EXPECT_EQ(found.at("status"), "error");
  EXPECT_TRUE(found.at("score").is_null());
  EXPECT_NE(found.at("error").get<std::string>().find("nonsense"), std::string::npos);
}

TEST(Scores, AreMeansOfWhatWasAnswered) {
  const auto entries = some_entries();
  const std::vector<std::vector<std::string>> groups = {{"length"}};
  const Json scores = score_entries(entries, groups);
  ASSERT_EQ(scores.size(), 6U);  // two settings, then each by length 1 and 2
  EXPECT_EQ(scores[0].at("setting"), "full");
  EXPECT_EQ(scores[0].at("n"), 3);
  EXPECT_NEAR(scores[0].at("mean").get<double>(), 2.0 / 3, 1e-12);
  EXPECT_LT(scores[0].at("low").get<double>(), 0.5);
  EXPECT_GT(scores[0].at("high").get<double>(), 0.8);
  EXPECT_TRUE(scores[0].at("tags").empty());
  EXPECT_NEAR(scores[0].at("bytes_mean").get<double>(), 5000.0 / 3, 1e-9);
  EXPECT_EQ(scores[2].at("tags"), (Json{{"length", 1}}));
  EXPECT_EQ(scores[2].at("mean"), 1);
  EXPECT_EQ(scores[3].at("tags"), (Json{{"length", 2}}));
  EXPECT_EQ(scores[3].at("mean"), 0.5);
}

TEST(Scores, AGroupNeedsItsTags) {
  const auto entries = some_entries();
  const std::vector<std::vector<std::string>> groups = {{"language"}};
  EXPECT_EQ(score_entries(entries, groups).size(), 2U);
}

TEST(Flips, AreCountedBothWays) {
  const auto entries = some_entries();
  const Json flips = flip_entries(entries, "full");
  ASSERT_EQ(flips.size(), 1U);
  EXPECT_EQ(flips[0].at("setting"), "window");
  EXPECT_EQ(flips[0].at("n"), 3);
  EXPECT_EQ(flips[0].at("to_wrong"), 1);
  EXPECT_EQ(flips[0].at("to_right"), 1);
  const std::string table = score_table(score_entries(entries, {}), flips);
  EXPECT_NE(table.find("-1/+1"), std::string::npos) << table;
  for (size_t at = 0; at < table.size(); at = table.find('\n', at) + 1) {
    EXPECT_LE(table.find('\n', at) - at, 100U);
  }
}

}  // namespace
}  // namespace kvasir::eval
