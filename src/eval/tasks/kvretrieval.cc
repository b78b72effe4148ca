#include "eval/tasks/kvretrieval.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "eval/tasks/fit.h"
#include "eval/tasks/values.h"

namespace kvasir::eval {
namespace {

struct Pair {
  std::string key;
  std::string value;
};

std::string line_of(const Pair& pair) { return "\"" + pair.key + "\": \"" + pair.value + "\""; }

// Draws one pair; UUIDs never run out.
Pair draw_pair(ValueSource& source) {
  std::string key = source.value(ValueKind::kUuid).value();
  return {.key = std::move(key), .value = source.value(ValueKind::kUuid).value()};
}

Question ask(const Pair& pair, size_t index) {
  Question question;
  question.id = std::to_string(index);
  question.text =
      "\n\nWhich value does the JSON object above give for the key \"" + pair.key + "\"?";
  question.answer_prefix = "The value for the key \"" + pair.key + "\" is \"";
  question.references = {pair.value};
  question.metric = "all_found";
  question.max_new_tokens = 64;
  return question;
}

// The asked pairs at their depths among the first of the others.
std::string object_of(const std::vector<Pair>& others, size_t count, const std::vector<Pair>& asked,
                      const std::vector<double>& depths) {
  std::string context = "{";
  const char* separator = "";
  size_t next = 0;
  for (size_t i = 0; i <= count; ++i) {
    for (; next < asked.size() &&
           (i == count || depths[next] * static_cast<double>(count) < static_cast<double>(i) + 0.5);
         ++next) {
      context += separator + line_of(asked[next]);
      separator = ",\n ";
    }
    if (i == count) break;
    context += separator + line_of(others[i]);
    separator = ",\n ";
  }
  return context + "}";
}

}  // namespace

Result<Sample> make_key_value_sample(const KeyValueRequest& request,
                                     const CountTokens& count_tokens) {
  constexpr int32_t kMostQuestions = 1000;
  if (request.questions < 1 || request.questions > kMostQuestions) {
    return Error{"kv_retrieval: found " + std::to_string(request.questions) +
                 " questions, expected 1 to " + std::to_string(kMostQuestions)};
  }
  Sample empty;
  empty.task = "kv_retrieval";
  empty.id = std::to_string(request.length) + "-" + std::to_string(request.questions) + "-" +
             std::to_string(request.seed);
  empty.instructions =
      "Below is a JSON object. Remember which value each key has, you will be asked for some of "
      "them.\n\n";
  empty.tags["length"] = request.length;
  empty.tags["tokens"] = 0;  // filled in by fit_sample
  empty.tags["seed"] = request.seed;

  ValueSource source(SeededRandom(request.seed, empty.task), {}, "");
  const auto questions = static_cast<size_t>(request.questions);
  std::vector<Pair> asked;
  std::vector<double> depths;  // one in each of as many equal parts
  for (size_t i = 0; i < questions; ++i) {
    asked.push_back(draw_pair(source));
    depths.push_back((static_cast<double>(i) + source.random().share()) /
                     static_cast<double>(questions));
  }
  std::vector<Pair> in_turn = asked;
  source.random().shuffle(in_turn);
  for (size_t i = 0; i < questions; ++i) empty.questions.push_back(ask(in_turn[i], i));

  std::vector<Pair> others;  // drawn when they are needed first
  const FitPlan plan{
      .name = empty.task, .length = request.length, .least = 0, .most = request.length};
  return fit_sample(plan, count_tokens, [&](int64_t pairs) {
    while (std::ssize(others) < pairs) others.push_back(draw_pair(source));
    Sample full = empty;
    full.context = object_of(others, static_cast<size_t>(pairs), asked, depths);
    return full;
  });
}

}  // namespace kvasir::eval
