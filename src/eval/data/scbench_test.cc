#include "eval/data/scbench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "eval/data/test_files.h"

namespace kvasir::eval {
namespace {

std::vector<Sample> load(const std::string& name, const DataOptions& options = {}) {
  auto samples = load_data("scbench", sample_path(name), options);
  EXPECT_TRUE(samples) << samples.error();
  return samples ? samples.value() : std::vector<Sample>(1);
}

// What is said about one line of the task, behind the file's name.
std::string error_of(const nlohmann::json& line, const std::string& task = "scbench_kv") {
  const TemporaryFile file(line.dump(), task + ".jsonl");
  const auto samples = load_data("scbench", file.path(), {});
  EXPECT_FALSE(samples) << line;
  EXPECT_EQ(samples.error().find(file.path()), 0U) << samples.error();
  return samples.error().substr(std::min(file.path().size(), samples.error().size()));
}

TEST(ScBench, AsksEveryTurnOfOneContext) {
  const auto samples = load("scbench_kv.jsonl");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].task, "scbench_kv");
  EXPECT_EQ(samples[0].id, "0");
  EXPECT_EQ(samples[1].id, "1");
  EXPECT_EQ(samples[0].context.find("{\"a1f0c2de"), 0U);
  ASSERT_EQ(samples[0].questions.size(), 2U);
  const Question& second = samples[0].questions[1];
  EXPECT_EQ(second.id, "1");
  EXPECT_EQ(second.text, "\n\nKey: \"b2e1d3cf-1234-4c0e-8f3a-52d0b6f7e002\"\nIts value:");
  EXPECT_EQ(second.references.at(0), "77777777-8888-4999-aaaa-bbbbccccdddd");
  EXPECT_EQ(second.metric, "any_found");
  EXPECT_EQ(second.max_new_tokens, 150);
  EXPECT_EQ(samples[0].tags.dump(), "{\"turns\":2}");
}

TEST(ScBench, PutsTheOptionsBehindTheQuestion) {
  const Sample sample = load("scbench_choice_eng.jsonl").at(0);
  const Question& question = sample.questions.at(1);
  EXPECT_EQ(question.text,
            "\n\nQuestion: Who owned the dog?\nA. The skipper\nB. The harbour master\n"
            "C. The sister\nD. The baker\n");
  EXPECT_EQ(question.references, (std::vector<std::string>{"The baker", "D"}));
  EXPECT_EQ(question.answer_prefix, "The letter of the right answer is");
}

TEST(ScBench, ReadsListsNumbersAndSeveralAnswers) {
  const Sample numbers = load("scbench_mf.jsonl").at(0);
  EXPECT_EQ(numbers.context, "[42, 7, 93, 15, 60]");
  EXPECT_EQ(numbers.questions.at(0).references.at(0), "93");
  const Sample variables = load("scbench_vt.jsonl").at(0);
  EXPECT_EQ(variables.questions.at(0).references.size(), 3U);
  EXPECT_EQ(variables.questions[0].metric, "all_found");
  EXPECT_EQ(load("scbench_many_shot.jsonl").at(0).tags.dump(), "{\"turns\":1,\"kind\":\"dates\"}");
}

TEST(ScBench, LetsTurnsSayTheirTaskInAMixedFile) {
  const Sample sample = load("scbench_summary_with_needles.jsonl").at(0);
  EXPECT_EQ(sample.questions.at(0).metric, "rouge_l");
  EXPECT_EQ(sample.questions[0].max_new_tokens, 800);
  EXPECT_EQ(sample.questions.at(1).metric, "first_number");
  EXPECT_EQ(sample.questions[1].max_new_tokens, 15);
  EXPECT_EQ(load("scbench_summary.jsonl").at(0).questions.at(0).max_new_tokens, 200);
}

TEST(ScBench, TakesTheTaskFromTheOption) {
  DataOptions options;
  options.task = "summary";
  EXPECT_EQ(load("scbench_kv.jsonl", options).at(0).task, "scbench_summary");
  const TemporaryFile file("{}", "mine.jsonl");
  EXPECT_EQ(load_data("scbench", file.path(), {})
                .error()
                .find(file.path() + ": 'scbench_mine' is no task of SCBench; name the file after "
                                    "its task or give the task, one of: scbench_summary_with"),
            0U);
}

TEST(ScBench, SaysWhatItDoesNotSupport) {
  for (const char* task : {"scbench_repoqa", "scbench_repoqa_and_kv"}) {
    EXPECT_EQ(error_of({}, task), ": the task " + std::string(task) +
                                      " is not supported: its score compares parsed source code");
  }
}

TEST(ScBench, NamesTheFieldThatIsWrong) {
  const nlohmann::json turn = {{"input", "Which?"}, {"answer", "this"}};
  const nlohmann::json right = {{"context", "text"}, {"multi_turns", {turn, turn}}};
  const auto with = [&](const std::string& at, const nlohmann::json& value) {
    auto line = right;
    line[nlohmann::json::json_pointer(at)] = value;
    return line;
  };
  EXPECT_EQ(error_of(with("/context", 7)),
            ":1: field 'context': found 7, expected a string that is not empty");
  EXPECT_EQ(error_of(with("/multi_turns", nlohmann::json::array())),
            ":1: field 'multi_turns': found [], expected an array of at least one object");
  EXPECT_EQ(error_of(with("/multi_turns/1/input", "")),
            ":1: field 'multi_turns[1].input': found \"\", expected a string that is not empty");
  EXPECT_EQ(error_of(with("/multi_turns/0/answer", nullptr)),
            ":1: field 'multi_turns[0].answer': found nothing, expected a string that is not empty "
            "or a number");
  EXPECT_EQ(
      error_of(with("/multi_turns/0/answer", {1})),
      ":1: field 'multi_turns[0].answer': found [1], expected an array of at least one string");
  EXPECT_EQ(error_of(with("/id", false)),
            ":1: field 'id': found false, expected a string that is not empty or a number");
  EXPECT_EQ(error_of(right, "scbench_choice_eng"),
            ":1: field 'multi_turns[0].options': found nothing, expected an array of at least one "
            "string");
  EXPECT_EQ(error_of(with("/multi_turns/0/options", {"a", "b", "c", "d"}), "scbench_choice_eng"),
            ":1: field 'multi_turns[0].answer': found \"this\", expected one of the options or its "
            "letter");
  EXPECT_EQ(error_of(with("/multi_turns/0/options", {"a", "b"}), "scbench_choice_eng"),
            ":1: field 'multi_turns[0].options': found [\"a\",\"b\"], expected an array of 4 "
            "strings");
  EXPECT_EQ(error_of(with("/multi_turns/0/task", "scbench_kv"), "scbench_summary_with_needles"),
            ":1: field 'multi_turns[0].task': found \"scbench_kv\", expected scbench_summary or "
            "scbench_passkey");
  EXPECT_EQ(error_of(with("/context", {1, "x"}), "scbench_mf"),
            ":1: field 'context': found [1,\"x\"], expected a string or an array of numbers");
}

}  // namespace
}  // namespace kvasir::eval
