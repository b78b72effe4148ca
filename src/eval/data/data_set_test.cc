#include "eval/data/data_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <set>
#include <string>

#include "eval/data/test_files.h"
#include "eval/data/truncate.h"
#include "eval/metrics/score.h"

namespace kvasir::eval {
namespace {

struct SampleFile {
  std::string set;
  std::string path;
};

// All samples that are committed, with the data set of each file.
std::vector<SampleFile> sample_files() {
  std::vector<SampleFile> files;
  for (const char* name : {"longbench", "longbench_e", "aime"}) {
    files.push_back({name, sample_path(std::string(name) + ".jsonl")});
  }
  for (const auto& entry : std::filesystem::directory_iterator(KVASIR_SAMPLES)) {
    if (entry.path().filename().string().starts_with("scbench_")) {
      files.push_back({"scbench", entry.path().string()});
    }
  }
  return files;
}

// What a model would write that answers with this reference.
std::string perfect_answer(const Question& question) {
  if (question.metric == "boxed") return "So \\boxed{" + question.references.front() + "}.";
  if (question.metric != "all_found") return question.references.front();
  return std::accumulate(question.references.begin(), question.references.end(), std::string(),
                         [](const auto& all, const auto& each) { return all + " " + each; });
}

TEST(Samples, ScoreOneForRightAndNothingForWrong) {
  std::map<std::string, int> counts;
  std::set<std::string> metrics_seen;
  for (const auto& file : sample_files()) {
    const auto samples = load_data(file.set, file.path, {});
    ASSERT_TRUE(samples) << samples.error();
    for (const auto& sample : samples.value()) {
      ++counts[file.set];
      for (const auto& question : sample.questions) {
        metrics_seen.insert(question.metric);
        const std::string where = file.path + " " + sample.id + " " + question.id;
        EXPECT_NEAR(score_answer(perfect_answer(question), question).value(), 1, 1e-7) << where;
        EXPECT_EQ(score_answer("¬¬\n\\boxed{1001} 1001", question).value(), 0) << where;
        EXPECT_GT(question.max_new_tokens, 0) << where;
        EXPECT_FALSE(question.text.empty()) << where;
      }
    }
  }
  for (const auto& set : data_sets()) EXPECT_GE(counts[std::string(set.name)], 10) << set.name;
  // All metrics but "exact", which no published data set needs.
  EXPECT_EQ(metrics_seen,
            (std::set<std::string>{"all_found", "any_found", "boxed", "choice", "class_match",
                                   "code_edit", "count", "f1", "f1_zh", "first_number", "retrieval",
                                   "retrieval_zh", "rouge_l", "rouge_l_zh"}));
}

TEST(Samples, AreTheSameInEveryRun) {
  for (const auto& file : sample_files()) {
    const auto first = load_data(file.set, file.path, {});
    const auto again = load_data(file.set, file.path, {});
    ASSERT_TRUE(first && again);
    std::set<std::string> ids;
    for (size_t i = 0; i < first.value().size(); ++i) {
      EXPECT_EQ(first.value()[i].id, again.value()[i].id);
      EXPECT_TRUE(ids.insert(first.value()[i].task + " " + first.value()[i].id).second);
    }
  }
}

TEST(Aime, ReadsTheSpellingsOfItsFields) {
  const auto samples = load_data("aime", sample_path("aime.jsonl"), {});
  ASSERT_TRUE(samples) << samples.error();
  ASSERT_EQ(samples.value().size(), 10U);
  EXPECT_EQ(samples.value()[0].id, "own-0");
  EXPECT_EQ(samples.value()[1].id, "own-1");
  EXPECT_EQ(samples.value()[2].id, "2");
  EXPECT_EQ(samples.value()[0].questions.at(0).references.at(0), "045");
  EXPECT_EQ(samples.value()[1].questions.at(0).references.at(0), "1");
  EXPECT_EQ(samples.value()[0].questions[0].max_new_tokens, 16384);
  EXPECT_NE(samples.value()[0].questions[0].text.find("\\boxed{}"), std::string::npos);
}

TEST(Aime, NumbersByLinesWithoutIds) {
  const TemporaryFile file("\n{\"question\": \"1 + 1?\", \"answer\": 2}\n");
  const auto samples = load_data("aime", file.path(), {});
  ASSERT_TRUE(samples) << samples.error();
  EXPECT_EQ(samples.value().at(0).id, "2");
}

TEST(Aime, NamesTheFieldThatIsWrong) {
  const TemporaryFile file("{\"Problem\": \"1 + 1?\", \"Answer\": null}\n");
  EXPECT_EQ(load_data("aime", file.path(), {}).error(),
            file.path() +
                ":1: field 'answer': found nothing, expected a string that is not empty " +
                "or a number");
  file.write("{\"Problem\": 2, \"Answer\": 2}\n");
  EXPECT_EQ(load_data("aime", file.path(), {}).error(),
            file.path() + ":1: field 'Problem': found 2, expected a string that is not empty");
}

TEST(LoadData, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(load_data("gsm8k", "x", {}).error(),
            "no data set 'gsm8k', expected one of: longbench, longbench_e, scbench, aime");
  DataOptions options;
  options.prompts_path = "p.json";
  EXPECT_EQ(load_data("aime", "x", options).error(),
            "prompts_path is 'p.json', but aime takes none: only longbench does");
  options = {};
  options.max_new_tokens_path = "m.json";
  EXPECT_EQ(load_data("scbench", "x", options).error(),
            "max_new_tokens_path is 'm.json', but scbench takes none: only longbench does");
  options = {};
  options.task = "kv";
  EXPECT_EQ(load_data("longbench_e", "x", options).error(),
            "task is 'kv', but longbench_e takes none: only scbench does");
  options = {};
  options.max_new_tokens = -5;
  EXPECT_EQ(load_data("aime", "x", options).error(),
            "max_new_tokens is -5, expected 1 or more, or 0 for the data set's own");
}

TEST(LoadData, LetsTheCallerSayHowManyNewTokens) {
  DataOptions options;
  options.max_new_tokens = 77;
  const auto samples = load_data("scbench", sample_path("scbench_kv.jsonl"), options);
  ASSERT_TRUE(samples) << samples.error();
  EXPECT_EQ(samples.value()[1].questions[1].max_new_tokens, 77);
}

TEST(TruncateMiddle, KeepsBothEnds) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(truncate_middle(tokens, 7), tokens);
  EXPECT_EQ(truncate_middle(tokens, 6), (std::vector<int32_t>{1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(truncate_middle(tokens, 5), (std::vector<int32_t>{1, 2, 6, 7}));
  EXPECT_TRUE(truncate_middle(tokens, 1).empty());
  EXPECT_TRUE(truncate_middle({}, 0).empty());
}

}  // namespace
}  // namespace kvasir::eval
