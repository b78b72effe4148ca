#include "eval/data/longbench.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "eval/data/fields.h"
#include "eval/data/longbench_tasks.h"
#include "eval/data/prompts.h"
#include "eval/metrics/metric.h"

namespace kvasir::eval {
namespace {

// What the caller's files say instead of the table of tasks.
struct Official {
  std::optional<std::map<std::string, Prompt>> prompts;
  std::optional<std::map<std::string, int32_t>> new_tokens;
};

Result<Official> read_official(const DataOptions& options) {
  Official official;
  if (!options.prompts_path.empty()) {
    auto prompts = read_prompts(options.prompts_path);
    if (!prompts) return Error{prompts.error()};
    official.prompts = std::move(prompts.value());
  }
  if (!options.max_new_tokens_path.empty()) {
    auto numbers = read_numbers(options.max_new_tokens_path);
    if (!numbers) return Error{numbers.error()};
    official.new_tokens = std::move(numbers.value());
  }
  return official;
}

std::string task_names(bool extended) {
  std::string names;
  for (const auto& task : longbench_tasks()) {
    if (extended && !task.extended) continue;
    if (!names.empty()) names += ", ";
    names += task.name;
  }
  return names;
}

Result<const LongBenchTask*> find_task(const Fields& fields, bool extended) {
  const auto name = fields.text({"dataset"});
  if (!name) return Error{name.error()};
  std::string_view bare = name.value();
  if (extended && bare.ends_with("_e")) bare.remove_suffix(2);
  const LongBenchTask* task = find_longbench_task(bare);
  if (task == nullptr || (extended && !task->extended)) {
    return fields.wrong("dataset", "one of: " + task_names(extended));
  }
  return task;
}

Result<Prompt> find_prompt(const LongBenchTask& task, const Official& official,
                           const std::string& prompts_path) {
  if (!official.prompts) return split_prompt(task.prompt);
  const auto found = official.prompts->find(std::string(task.name));
  if (found != official.prompts->end()) return found->second;
  return Error{prompts_path + ": no prompt for the task '" + std::string(task.name) + "'"};
}

Result<int32_t> find_new_tokens(const LongBenchTask& task, const Official& official,
                                const std::string& numbers_path) {
  if (!official.new_tokens) return task.max_new_tokens;
  const auto found = official.new_tokens->find(std::string(task.name));
  if (found != official.new_tokens->end()) return found->second;
  return Error{numbers_path + ": no number for the task '" + std::string(task.name) + "'"};
}

// The references, and the classes where the metric needs them. A reference that scores nothing by
// its own metric is an error of the file.
Result<void> read_answers(const Fields& fields, Question& question) {
  auto answers = fields.texts("answers");
  if (!answers) return Error{answers.error()};
  question.references = std::move(answers.value());
  if (question.metric == "class_match") {
    auto classes = fields.texts("all_classes");
    if (!classes) return Error{classes.error()};
    question.classes = std::move(classes.value());
  }
  if (question.metric.starts_with("retrieval")) {
    const Metric& metric = *find_metric(question.metric);
    if (metric.score(question.references.front(), question) == 0) {
      return fields.wrong("answers",
                          question.metric == "retrieval" ? "[\"Paragraph N\"]" : "[\"段落N\"]");
    }
  }
  return {};
}

Result<Question> make_question(const Fields& fields, const LongBenchTask& task,
                               std::string_view after_context, int32_t new_tokens) {
  const auto input = fields.text({"input"});
  if (!input) return Error{input.error()};
  Question question{.id = "0",
                    .text = fill_input(after_context, input.value()),
                    .answer_prefix = {},
                    .references = {},
                    .classes = {},
                    .metric = std::string(task.metric),
                    .max_new_tokens = new_tokens,
                    .first_line_only = task.first_line_only};
  if (auto ok = read_answers(fields, question); !ok) return Error{ok.error()};
  return question;
}

class Maker {
 public:
  Maker(Official official, const DataOptions& options, bool extended)
      : official_(std::move(official)), options_(&options), extended_(extended) {}

  Result<Sample> operator()(const Fields& fields) const {
    const auto task = find_task(fields, extended_);
    if (!task) return Error{task.error()};
    const auto prompt = find_prompt(*task.value(), official_, options_->prompts_path);
    if (!prompt) return Error{prompt.error()};
    const auto new_tokens =
        find_new_tokens(*task.value(), official_, options_->max_new_tokens_path);
    if (!new_tokens) return Error{new_tokens.error()};
    return make(fields, *task.value(), prompt.value(), new_tokens.value());
  }

 private:
  Result<Sample> make(const Fields& fields, const LongBenchTask& task, const Prompt& prompt,
                      int32_t new_tokens) const {
    auto question = make_question(fields, task, prompt.after, new_tokens);
    if (!question) return Error{question.error()};
    auto id = fields.filled_text({"_id"});
    if (!id) return Error{id.error()};
    auto context = fields.filled_text({"context"});
    if (!context) return Error{context.error()};
    const auto length = fields.count("length");
    if (!length) return Error{length.error()};
    const auto language = fields.filled_text({"language"});
    if (!language) return Error{language.error()};
    Sample sample;
    sample.task = task.name;
    sample.id = std::move(id.value());
    sample.instructions = fill_input(prompt.before, fields.text({"input"}).value());
    sample.context = std::move(context.value());
    sample.questions.push_back(std::move(question.value()));
    sample.chat = task.chat;
    sample.tags["length"] = length.value();
    sample.tags["language"] = language.value();
    if (extended_) sample.tags["length_bin"] = length_bin(length.value());
    return sample;
  }

  Official official_;
  const DataOptions* options_;
  bool extended_;
};

Result<std::vector<Sample>> load(const std::string& path, const DataOptions& options,
                                 bool extended) {
  auto official = read_official(options);
  if (!official) return Error{official.error()};
  return read_samples(path, options.limit, Maker(std::move(official.value()), options, extended));
}

}  // namespace

std::string_view length_bin(int64_t length) {
  if (length < 4000) return "0-4k";
  return length < 8000 ? "4-8k" : "8k+";
}

Result<std::vector<Sample>> load_longbench(const std::string& path, const DataOptions& options) {
  return load(path, options, false);
}

Result<std::vector<Sample>> load_longbench_e(const std::string& path, const DataOptions& options) {
  return load(path, options, true);
}

}  // namespace kvasir::eval
