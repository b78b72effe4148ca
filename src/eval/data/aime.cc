#include "eval/data/aime.h"

#include <utility>

#include "eval/data/fields.h"

namespace kvasir::eval {
namespace {

constexpr const char* kTask = "aime";
constexpr const char* kAsk =
    "\n\nReason step by step. End with the final answer, a whole number, inside \\boxed{}.";

Result<Sample> make_sample(const Fields& fields) {
  auto problem = fields.filled_text({"problem", "Problem", "question"});
  if (!problem) return Error{problem.error()};
  auto answer = fields.text_or_number({"answer", "Answer"});
  if (!answer) return Error{answer.error()};
  Sample sample;
  sample.task = kTask;
  sample.id = std::to_string(fields.line());
  if (fields.find({"id", "ID"}) != nullptr) {
    auto id = fields.text_or_number({"id", "ID"});
    if (!id) return Error{id.error()};
    sample.id = std::move(id.value());
  }
  sample.context = std::move(problem.value());
  Question question;
  question.id = "0";
  question.text = kAsk;
  question.references = {std::move(answer.value())};
  question.metric = "boxed";
  question.max_new_tokens = kAimeNewTokens;
  sample.questions.push_back(std::move(question));
  return sample;
}

}  // namespace

Result<std::vector<Sample>> load_aime(const std::string& path, const DataOptions& options) {
  return read_samples(path, options.limit, make_sample);
}

}  // namespace kvasir::eval
