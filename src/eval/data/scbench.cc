#include "eval/data/scbench.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "eval/data/fields.h"
#include "eval/data/prompts.h"

namespace kvasir::eval {
namespace {

struct Task {
  std::string_view name;
  std::string_view metric;  ///< a name of metrics()
  int32_t max_new_tokens;
  std::string_view before;  ///< the context
  std::string_view ask;     ///< with {input}; options follow it line by line
  std::string_view prefix;  ///< of the answer
};

constexpr std::string_view kPairs =
    "Below are keys with their values. You will be asked for the values of some of them.\n\n";
constexpr std::string_view kPlain = "\n\n{input}";

constexpr std::array<Task, 13> kTasks = {{
    {"scbench_kv", "any_found", 150, kPairs, kPlain, ""},
    {"scbench_kv_hard", "any_found", 150, kPairs, kPlain, ""},
    {"scbench_kv_compressible", "any_found", 150, kPairs, kPlain, ""},
    {"scbench_hashhop", "any_found", 150, "", kPlain, ""},
    {"scbench_prefix_suffix", "any_found", 150, "", kPlain, ""},
    {"scbench_vt", "all_found", 30, "", kPlain, ""},
    {"scbench_qa_eng", "any_found", 40, "Below is a book. Questions about it follow.\n\n",
     "\n\nReply with a few words.\nQuestion: {input}\nAnswer:", ""},
    {"scbench_qa_chn", "f1_zh", 40, "下面是一本书，之后是关于它的问题。\n\n",
     "\n\n请用几个字作答。\n问题：{input}\n答案：", ""},
    {"scbench_choice_eng", "choice", 40, "Below is a book. Questions about it follow.\n\n",
     "\n\nQuestion: {input}\n", "The letter of the right answer is"},
    {"scbench_mf", "first_number", 5,
     "Below is a list of numbers. You will be asked for a number that describes it.\n\n", kPlain,
     ""},
    {"scbench_many_shot", "any_found", 10, "", kPlain, ""},
    {"scbench_summary", "rouge_l", 200, "", kPlain, ""},
    {"scbench_passkey", "first_number", 15,
     "Below is a long text. Somewhere in it stands a number that you will be asked for.\n\n",
     kPlain, ""},
}};

// A file whose turns say which of two tasks they are; a summary may be longer there.
constexpr std::string_view kMixed = "scbench_summary_with_needles";
constexpr int32_t kMixedSummaryTokens = 800;
constexpr std::array<std::string_view, 2> kMixedTasks = {"scbench_summary", "scbench_passkey"};
constexpr std::array<std::string_view, 2> kNotSupported = {"scbench_repoqa",
                                                           "scbench_repoqa_and_kv"};

const Task* find_task(std::string_view name) {
  const auto found = std::find_if(kTasks.begin(), kTasks.end(),
                                  [&](const Task& task) { return task.name == name; });
  return found == kTasks.end() ? nullptr : &*found;
}

// The task's full name, from the option or the file's name.
Result<std::string> task_name(const std::string& path, const DataOptions& options) {
  std::string name =
      options.task.empty() ? std::filesystem::path(path).stem().string() : options.task;
  if (!name.starts_with("scbench_")) name.insert(0, "scbench_");
  if (find_task(name) != nullptr || name == kMixed) return name;
  if (std::count(kNotSupported.begin(), kNotSupported.end(), name) > 0) {
    return Error{path + ": the task " + name +
                 " is not supported: its score compares parsed source code"};
  }
  std::string known(kMixed);
  for (const auto& task : kTasks) known += ", " + std::string(task.name);
  return Error{path + ": '" + name + "' is no task of SCBench; name the file after its task or " +
               "give the task, one of: " + known};
}

Result<std::string> read_context(const Fields& fields, const Task* task) {
  const nlohmann::json* value = fields.find({"context", "input"});
  const bool list = task != nullptr && task->name == "scbench_mf" && value != nullptr &&
                    value->is_array() && !value->empty();
  if (!list) return fields.filled_text({"context", "input"});
  std::string text;
  for (const auto& number : *value) {
    if (!number.is_number()) return fields.wrong("context", "a string or an array of numbers");
    text += (text.empty() ? "[" : ", ") + number.dump();
  }
  return text + "]";
}

// The right answers of a turn: a string, a number, or an array of strings.
Result<std::vector<std::string>> read_answers(const Fields& turn) {
  const nlohmann::json* value = turn.find({"answer"});
  if (value != nullptr && value->is_array()) return turn.texts("answer");
  auto answer = turn.text_or_number({"answer"});
  if (!answer) return Error{answer.error()};
  return std::vector<std::string>{std::move(answer.value())};
}

// Puts the options behind the question; the right one also counts by its letter.
Result<void> add_options(const Fields& turn, Question& question) {
  const auto options = turn.texts("options");
  if (!options) return Error{options.error()};
  if (options.value().size() != 4) return turn.wrong("options", "an array of 4 strings");
  const std::string answer = question.references.front();
  question.references = {};
  for (size_t i = 0; i < options.value().size(); ++i) {
    const std::string letter(1, static_cast<char>('A' + i));
    question.text += letter + ". " + options.value()[i] + "\n";
    if (answer == options.value()[i] || answer == letter) {
      question.references = {options.value()[i], letter};
    }
  }
  if (question.references.empty()) return turn.wrong("answer", "one of the options or its letter");
  return {};
}

// The task of one turn: the file's, or the turn's own where the file mixes them.
Result<const Task*> task_of_turn(const Fields& turn, const Task* task) {
  if (task != nullptr) return task;
  const auto name = turn.text({"task"});
  if (!name) return Error{name.error()};
  if (std::count(kMixedTasks.begin(), kMixedTasks.end(), name.value()) == 0) {
    return turn.wrong("task", "scbench_summary or scbench_passkey");
  }
  return find_task(name.value());
}

Result<Question> make_question(const Fields& turn, const Task* file_task, size_t index) {
  const auto found = task_of_turn(turn, file_task);
  if (!found) return Error{found.error()};
  const Task& task = *found.value();
  const auto input = turn.filled_text({"input"});
  if (!input) return Error{input.error()};
  auto answers = read_answers(turn);
  if (!answers) return Error{answers.error()};
  Question question;
  question.id = std::to_string(index);
  question.text = fill_input(task.ask, input.value());
  question.answer_prefix = task.prefix;
  question.references = std::move(answers.value());
  question.metric = task.metric;
  question.max_new_tokens = task.max_new_tokens;
  if (task.metric == "choice") {
    if (auto ok = add_options(turn, question); !ok) return Error{ok.error()};
  }
  const bool mixed_summary = file_task == nullptr && task.metric == "rouge_l";
  if (mixed_summary) question.max_new_tokens = kMixedSummaryTokens;
  return question;
}

Result<Sample> make_sample(const Fields& fields, const std::string& name) {
  const Task* task = find_task(name);  // null where turns have tasks of their own
  auto context = read_context(fields, task);
  if (!context) return Error{context.error()};
  const auto turns = fields.objects("multi_turns");
  if (!turns) return Error{turns.error()};
  Sample sample;
  sample.task = name;
  sample.id = std::to_string(fields.line());
  if (fields.find({"id"}) != nullptr) {
    auto id = fields.text_or_number({"id"});
    if (!id) return Error{id.error()};
    sample.id = std::move(id.value());
  }
  sample.instructions = task == nullptr ? std::string_view() : task->before;
  sample.context = std::move(context.value());
  for (const auto& turn : turns.value()) {
    auto question = make_question(turn, task, sample.questions.size());
    if (!question) return Error{question.error()};
    sample.questions.push_back(std::move(question.value()));
  }
  sample.tags["turns"] = sample.questions.size();
  if (fields.find({"task"}) != nullptr) {
    const auto kind = fields.text({"task"});
    if (!kind) return Error{kind.error()};
    sample.tags["kind"] = kind.value();
  }
  return sample;
}

}  // namespace

Result<std::vector<Sample>> load_scbench(const std::string& path, const DataOptions& options) {
  const auto name = task_name(path, options);
  if (!name) return Error{name.error()};
  return read_samples(path, options.limit,
                      [&](const Fields& fields) { return make_sample(fields, name.value()); });
}

}  // namespace kvasir::eval
