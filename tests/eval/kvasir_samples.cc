// Writes samples of a task as JSON lines, for a look at them and for comparisons with others.
//
// Lengths are counted without a model: a token for each word and each mark, or for four bytes.
#include <CLI/CLI.hpp>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/tasks/kvretrieval.h"
#include "eval/tasks/many_shot.h"
#include "eval/tasks/needle.h"
#include "eval/tasks/qa_source.h"
#include "eval/tasks/ruler.h"

namespace kvasir::eval {
namespace {

struct Options {
  std::string task = "needle";
  int32_t length = 4096;
  uint64_t seed = 1;
  uint64_t count = 1;
  double depth = 50;
  std::string kind = "number";
  std::string essay;
  std::string words;
  std::string questions;
  std::string tokenizer = "words";
};

int32_t count_words(std::string_view text) {
  int32_t tokens = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!(is_word && in_word) && std::isspace(static_cast<unsigned char>(c)) == 0) ++tokens;
    in_word = is_word;
  }
  return tokens;
}

int32_t count_bytes(std::string_view text) { return static_cast<int32_t>((text.size() + 3) / 4); }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Result<Sample> make(const Options& options, uint64_t seed, const Material& material,
                    const CountTokens& count_tokens) {
  if (options.task == "needle") {
    const Result<ValueKind> kind = find_value_kind(options.kind);
    if (!kind) return Error{kind.error()};
    return make_needle_sample({.length = options.length,
                               .depth_percent = options.depth,
                               .seed = seed,
                               .kind = kind.value()},
                              material, count_tokens);
  }
  if (options.task == "kv_retrieval") {
    return make_key_value_sample({.length = options.length, .seed = seed}, count_tokens);
  }
  if (options.task == "many_shot") {
    return make_many_shot_sample({.length = options.length, .seed = seed}, count_tokens);
  }
  return make_ruler_sample({.task = options.task,
                            .length = options.length,
                            .seed = seed,
                            .material = material,
                            .count_tokens = count_tokens});
}

nlohmann::ordered_json to_json(const Sample& sample) {
  nlohmann::ordered_json questions = nlohmann::ordered_json::array();
  for (const Question& question : sample.questions) {
    questions.push_back({{"id", question.id},
                         {"text", question.text},
                         {"answer_prefix", question.answer_prefix},
                         {"references", question.references},
                         {"classes", question.classes},
                         {"metric", question.metric},
                         {"max_new_tokens", question.max_new_tokens}});
  }
  return {{"task", sample.task},       {"id", sample.id},
          {"tags", sample.tags},       {"instructions", sample.instructions},
          {"context", sample.context}, {"questions", questions}};
}

int write(const Options& options) {
  const std::string essay = options.essay.empty() ? "" : read_file(options.essay);
  const std::vector<std::string> words =
      options.words.empty() ? std::vector<std::string>() : read_lines(options.words);
  QaSource source;
  if (!options.questions.empty()) {
    Result<QaSource> parsed = parse_qa(read_file(options.questions), options.questions);
    if (!parsed) {
      std::cerr << parsed.error() << "\n";
      return 1;
    }
    source = std::move(parsed.value());
  }
  const Material material{.essay = essay, .words = words, .qa_1 = &source, .qa_2 = &source};
  const CountTokens count_tokens = options.tokenizer == "words" ? count_words : count_bytes;
  for (uint64_t i = 0; i < options.count; ++i) {
    const Result<Sample> sample = make(options, options.seed + i, material, count_tokens);
    if (!sample) {
      std::cerr << sample.error() << "\n";
      return 1;
    }
    std::cout << to_json(sample.value()).dump() << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace kvasir::eval

int main(int argc, char** argv) {
  kvasir::eval::Options options;
  CLI::App app{"Writes samples of an evaluation task as JSON lines."};
  app.add_option("task", options.task, "needle, kv_retrieval, many_shot, or a task of RULER");
  app.add_option("-l,--length", options.length, "tokens of the prompt")->capture_default_str();
  app.add_option("-s,--seed", options.seed, "of the first sample; the next has one more")
      ->capture_default_str();
  app.add_option("-n,--count", options.count, "samples")->capture_default_str();
  app.add_option("--depth", options.depth, "of a needle, percent from the start")
      ->capture_default_str();
  app.add_option("--kind", options.kind, "of a needle: number, word, uuid, digits64")
      ->capture_default_str();
  app.add_option("--essay", options.essay, "file with prose")->check(CLI::ExistingFile);
  app.add_option("--words", options.words, "file with a word a line")->check(CLI::ExistingFile);
  app.add_option("--questions", options.questions, "file in the format of SQuAD or HotpotQA")
      ->check(CLI::ExistingFile);
  app.add_option("--tokenizer", options.tokenizer, "words or bytes")
      ->check(CLI::IsMember({"words", "bytes"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return kvasir::eval::write(options);
}
