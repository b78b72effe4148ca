#include "eval/data/longbench.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "eval/data/longbench_tasks.h"
#include "eval/data/prompts.h"
#include "eval/data/test_files.h"
#include "eval/metrics/metric.h"

namespace kvasir::eval {
namespace {

std::vector<Sample> load(const std::string& set, const std::string& path,
                         const DataOptions& options = {}) {
  auto samples = load_data(set, path, options);
  EXPECT_TRUE(samples) << samples.error();
  return samples ? samples.value() : std::vector<Sample>();
}

std::string error_of(const std::string& set, const std::string& text,
                     const DataOptions& options = {}) {
  const TemporaryFile file(text);
  const auto samples = load_data(set, file.path(), options);
  EXPECT_FALSE(samples) << text;
  const size_t at = samples.error().find(file.path());
  return at == 0 ? samples.error().substr(file.path().size()) : samples.error();
}

nlohmann::json line(const std::string& dataset) {
  return {{"dataset", dataset},  {"_id", "x1"}, {"context", "A lake."}, {"input", "Where?"},
          {"answers", {"here"}}, {"length", 2}, {"language", "en"},     {"all_classes", nullptr}};
}

TEST(LongBenchTasks, AreTheOfficialOnes) {
  EXPECT_EQ(longbench_tasks().size(), 21U);
  std::map<std::string_view, int> tokens;
  int extended = 0;
  std::string no_chat;
  std::string first_line;
  for (const auto& task : longbench_tasks()) {
    EXPECT_NE(find_metric(task.metric), nullptr) << task.name;
    EXPECT_TRUE(split_prompt(task.prompt)) << task.name;
    EXPECT_EQ(find_longbench_task(task.name), &task);
    tokens[task.name] = task.max_new_tokens;
    extended += task.extended ? 1 : 0;
    if (!task.chat) no_chat += std::string(task.name) + " ";
    if (task.first_line_only) first_line += std::string(task.name) + " ";
  }
  EXPECT_EQ(extended, 13);
  EXPECT_EQ(no_chat, "trec triviaqa samsum lsht lcc repobench-p ");
  EXPECT_EQ(first_line, "trec triviaqa samsum lsht ");
  EXPECT_EQ(tokens["narrativeqa"], 128);
  EXPECT_EQ(tokens["multifieldqa_zh"], 64);
  EXPECT_EQ(tokens["passage_count"], 32);
  EXPECT_EQ(tokens["vcsum"], 512);
  EXPECT_EQ(find_longbench_task("narrativeqa_e"), nullptr);
}

TEST(LongBench, MakesASampleOfALine) {
  const auto samples = load("longbench", sample_path("longbench.jsonl"));
  ASSERT_EQ(samples.size(), 10U);
  const Sample& first = samples[0];
  EXPECT_EQ(first.task, "narrativeqa");
  EXPECT_EQ(first.id, "narrativeqa-0001");
  EXPECT_EQ(first.instructions.find("Below is a story"), 0U);
  EXPECT_EQ(first.context.find("The ferry to Hallsund"), 0U);
  EXPECT_NE(first.questions.at(0).text.find("Question: Why was the ferry late?\nAnswer:"),
            std::string::npos);
  EXPECT_EQ(first.questions[0].references.size(), 2U);
  EXPECT_EQ(first.questions[0].metric, "f1");
  EXPECT_EQ(first.questions[0].max_new_tokens, 128);
  EXPECT_TRUE(first.chat);
  EXPECT_EQ(first.tags.dump(), "{\"length\":92,\"language\":\"en\"}");
}

TEST(LongBench, TakesTheSpecialTasksAsTheyAre) {
  const auto samples = load("longbench", sample_path("longbench.jsonl"));
  std::map<std::string, const Sample*> by_task;
  for (const auto& sample : samples) by_task[sample.task] = &sample;
  EXPECT_FALSE(by_task.at("trec")->chat);
  EXPECT_TRUE(by_task["trec"]->questions[0].first_line_only);
  EXPECT_EQ(by_task["trec"]->questions[0].classes.size(), 5U);
  EXPECT_TRUE(by_task["narrativeqa"]->questions[0].classes.empty());
  EXPECT_FALSE(by_task.at("lcc")->chat);
  EXPECT_FALSE(by_task["lcc"]->questions[0].first_line_only);
}

TEST(LongBenchE, TagsTheBin) {
  std::map<std::string, int> bins;
  for (const auto& sample : load("longbench_e", sample_path("longbench_e.jsonl"))) {
    ++bins[sample.tags.at("length_bin").get<std::string>()];
  }
  EXPECT_EQ(bins, (std::map<std::string, int>{{"0-4k", 3}, {"4-8k", 4}, {"8k+", 3}}));
  EXPECT_EQ(length_bin(3999), "0-4k");
  EXPECT_EQ(length_bin(4000), "4-8k");
  EXPECT_EQ(length_bin(7999), "4-8k");
  EXPECT_EQ(length_bin(8000), "8k+");
}

TEST(LongBenchE, TakesItsOwnTasksWithTheirSuffix) {
  const TemporaryFile file(line("hotpotqa_e").dump());
  EXPECT_EQ(load("longbench_e", file.path()).at(0).task, "hotpotqa");
  EXPECT_EQ(error_of("longbench_e", line("narrativeqa").dump())
                .find(":1: field 'dataset': found \"narrativeqa\", expected one of: qasper, "),
            0U);
  EXPECT_NE(error_of("longbench", line("hotpotqa_e").dump()).find("expected one of: narrativeqa"),
            std::string::npos);
}

TEST(LongBench, TakesTheOfficialFiles) {
  DataOptions options;
  options.prompts_path = sample_path("longbench_prompts.json");
  options.max_new_tokens_path = sample_path("longbench_maxlen.json");
  options.limit = 1;
  const auto samples = load("longbench", sample_path("longbench.jsonl"), options);
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].instructions, "Story: ");
  EXPECT_EQ(samples[0].questions[0].text, "\nAsked: Why was the ferry late?\nSaid:");
  EXPECT_EQ(samples[0].questions[0].max_new_tokens, 100);
  options.limit = 0;
  EXPECT_EQ(load_data("longbench", sample_path("longbench.jsonl"), options).error(),
            options.prompts_path + ": no prompt for the task 'qasper'");
  options.prompts_path.clear();
  EXPECT_EQ(load_data("longbench", sample_path("longbench.jsonl"), options).error(),
            options.max_new_tokens_path + ": no number for the task 'qasper'");
}

TEST(LongBench, RefusesOfficialFilesThatAreWrong) {
  const auto with_prompts = [](const std::string& text) {
    const TemporaryFile prompts(text, "prompts.json");
    DataOptions options;
    options.prompts_path = prompts.path();
    return error_of("longbench", line("qasper").dump(), options).substr(prompts.path().size());
  };
  EXPECT_EQ(with_prompts("[]"), ": expected one JSON object, by task");
  EXPECT_EQ(with_prompts("{\"qasper\": 1}"),
            ": field 'qasper': expected a string with one {context}");
  EXPECT_EQ(with_prompts("{\"qasper\": \"{input}\"}"),
            ": field 'qasper': a prompt without exactly one {context}");
  EXPECT_EQ(with_prompts("{\"qasper\": \"{context}{context}\"}"),
            ": field 'qasper': a prompt without exactly one {context}");
  for (const char* number : {"0", "1.5", "\"64\"", "4294967296"}) {
    const TemporaryFile numbers("{\"qasper\": " + std::string(number) + "}", "numbers.json");
    DataOptions options;
    options.max_new_tokens_path = numbers.path();
    EXPECT_EQ(error_of("longbench", line("qasper").dump(), options),
              numbers.path() + ": field 'qasper': expected a whole number from 1 on");
  }
}

TEST(LongBench, NeedsEachFieldInItsType) {
  const std::map<std::string, nlohmann::json> wrong = {
      {"dataset", "poetry"}, {"_id", 7},      {"context", ""}, {"input", nullptr},
      {"answers", "here"},   {"length", "2"}, {"language", ""}};
  for (const auto& [field, value] : wrong) {
    const std::string begin = ":2: field '" + field + "': found ";
    auto changed = line("qasper");
    changed[field] = value;
    EXPECT_EQ(error_of("longbench", line("qasper").dump() + "\n" + changed.dump()).find(begin), 0U)
        << field;
    changed.erase(field);
    EXPECT_EQ(error_of("longbench", line("qasper").dump() + "\n" + changed.dump())
                  .find(begin + "nothing"),
              0U)
        << field;
  }
}

TEST(LongBench, NeedsWhatTheMetricNeeds) {
  EXPECT_EQ(error_of("longbench", line("trec").dump()),
            ":1: field 'all_classes': found nothing, expected an array of at least one string");
  EXPECT_EQ(error_of("longbench", line("passage_retrieval_en").dump()),
            ":1: field 'answers': found [\"here\"], expected [\"Paragraph N\"]");
}

TEST(Prompts, AreFilledOnce) {
  EXPECT_EQ(fill_input("a {input} b {input}", "{input}!"), "a {input}! b {input}!");
  EXPECT_EQ(fill_input("", "x"), "");
}

}  // namespace
}  // namespace kvasir::eval
