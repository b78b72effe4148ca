#include "eval/tasks/many_shot.h"

#include <array>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "eval/tasks/fit.h"
#include "eval/tasks/values.h"

namespace kvasir::eval {
namespace {

constexpr std::array<std::string_view, 6> kLabels = {"amber", "cobalt", "ivory",
                                                     "olive", "purple", "scarlet"};
constexpr size_t kEndings = 2 * kLabels.size();

// The hidden rule, with a stream of stems and of endings.
class Rule {
 public:
  Rule(uint64_t seed, const std::string& purpose) : source_(SeededRandom(seed, purpose), {}, "") {
    std::unordered_set<std::string> seen;
    while (endings_.size() < kEndings) {
      SeededRandom& random = source_.random();
      std::string ending = random.letters(1, "bdfgklmnprstvz");
      ending += random.letters(1, "aeiou");
      ending += random.letters(1, "lmnrst");
      if (seen.insert(ending).second) endings_.push_back(std::move(ending));
    }
  }

  const std::string& ending(size_t index) const { return endings_[index]; }
  std::string label_of(size_t ending) const { return std::string(kLabels[ending / 2]); }
  std::string new_item(size_t ending) { return source_.word().value() + "-" + endings_[ending]; }
  SeededRandom& random() { return source_.random(); }

  /// The shot after the last one: each dozen of shots has every ending once.
  std::string next_shot() {
    if (dozen_.empty()) {
      for (size_t i = 0; i < kEndings; ++i) dozen_.push_back(i);
      random().shuffle(dozen_);
    }
    const size_t ending = dozen_.back();
    dozen_.pop_back();
    return "Item: " + new_item(ending) + "\nLabel: " + label_of(ending) + "\n";
  }

 private:
  ValueSource source_;
  std::vector<std::string> endings_;  // two after two of one label
  std::vector<size_t> dozen_;         // endings still to come
};

Question ask(const std::string& item, const std::string& label, size_t index) {
  Question question;
  question.id = std::to_string(index);
  question.text = "\nItem: " + item;
  question.answer_prefix = "Label:";
  question.references = {label};
  question.classes.assign(kLabels.begin(), kLabels.end());
  question.metric = "class_match";
  question.max_new_tokens = 8;
  question.first_line_only = true;
  return question;
}

Sample frame(const ManyShotRequest& request) {
  Sample sample;
  sample.task = "many_shot";
  sample.id = std::to_string(request.length) + "-" + std::to_string(request.questions) + "-" +
              std::to_string(request.seed);
  sample.instructions =
      "Every item below has a label that follows from one rule. Learn the rule from the items, "
      "then "
      "give the label of the last item.\n\n";
  sample.tags["length"] = request.length;
  sample.tags["tokens"] = 0;  // filled in by fit_sample
  sample.tags["seed"] = request.seed;
  return sample;
}

}  // namespace

Result<Sample> make_many_shot_sample(const ManyShotRequest& request,
                                     const CountTokens& count_tokens) {
  if (request.questions < 1 || request.questions > static_cast<int32_t>(kEndings)) {
    return Error{"many_shot: found " + std::to_string(request.questions) +
                 " questions, expected 1 to " + std::to_string(kEndings)};
  }
  Sample empty = frame(request);
  Rule rule(request.seed, empty.task);
  std::vector<size_t> asked =
      rule.random().distinct(static_cast<size_t>(request.questions), kEndings);
  rule.random().shuffle(asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    empty.questions.push_back(ask(rule.new_item(asked[i]), rule.label_of(asked[i]), i));
  }

  std::vector<std::string> shots;  // drawn when they are needed first
  const FitPlan plan{
      .name = empty.task, .length = request.length, .least = 2 * kEndings, .most = request.length};
  return fit_sample(plan, count_tokens, [&](int64_t count) {
    while (std::ssize(shots) < count) shots.push_back(rule.next_shot());
    Sample full = empty;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) full.context += shots[i];
    full.tags["shots"] = count;
    return full;
  });
}

}  // namespace kvasir::eval
