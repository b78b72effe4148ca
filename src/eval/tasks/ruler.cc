#include "eval/tasks/ruler.h"

#include <array>
#include <string>
#include <utility>

#include "eval/tasks/niah.h"
#include "eval/tasks/ruler_makers.h"

namespace kvasir::eval {
namespace {

using enum HaystackKind;
using enum ValueKind;

Result<Sample> niah(const RulerRequest& request, NiahPlan plan) {
  plan.task = request.task;
  plan.id = ruler_id(request);
  plan.draws = request.task;
  plan.length = request.length;
  plan.seed = request.seed;
  return make_niah(plan, request.material, request.count_tokens);
}

using Request = const RulerRequest&;

constexpr std::array<RulerTask, 13> kTasks = {{
    {"niah_single_1", "one number in noise",
     [](Request r) { return niah(r, {.haystack = kNoise}); }},
    {"niah_single_2", "one number in an essay",
     [](Request r) { return niah(r, {.haystack = kEssay}); }},
    {"niah_single_3", "one UUID in an essay",
     [](Request r) { return niah(r, {.haystack = kEssay, .value_kind = kUuid}); }},
    {"niah_multikey_1", "one number among four keys in an essay",
     [](Request r) { return niah(r, {.haystack = kEssay, .keys = 4}); }},
    {"niah_multikey_2", "one number among needles only",
     [](Request r) { return niah(r, {.haystack = kNeedles}); }},
    {"niah_multikey_3", "one UUID by its UUID among needles only",
     [](Request r) {
       return niah(r, {.haystack = kNeedles, .key_kind = kUuid, .value_kind = kUuid});
     }},
    {"niah_multivalue", "four numbers of one key in an essay",
     [](Request r) { return niah(r, {.haystack = kEssay, .values = 4}); }},
    {"niah_multiquery", "four numbers of four keys in an essay",
     [](Request r) { return niah(r, {.haystack = kEssay, .keys = 4, .queries = 4}); }},
    {"vt", "five variables that hold one value, over four hops", make_variable_tracking},
    {"cwe", "the ten most common words of a list", make_common_words},
    {"fwe", "the three most frequent coded words", make_frequent_words},
    {"qa_1", "a question with its paragraph among others (SQuAD)",
     [](Request r) { return make_document_question(r, r.material.qa_1); }},
    {"qa_2", "a question with its paragraphs among others (HotpotQA)",
     [](Request r) { return make_document_question(r, r.material.qa_2); }},
}};

}  // namespace

std::string ruler_id(const RulerRequest& request) {
  return std::string(request.task) + "-" + std::to_string(request.length) + "-" +
         std::to_string(request.seed);
}

Sample ruler_frame(const RulerRequest& request, std::string instructions, Question question) {
  Sample sample;
  sample.task = request.task;
  sample.id = ruler_id(request);
  sample.instructions = std::move(instructions);
  question.id.assign(1, '0');
  sample.questions.push_back(std::move(question));
  sample.tags["length"] = request.length;
  sample.tags["tokens"] = 0;  // filled in by fit_sample
  sample.tags["seed"] = request.seed;
  return sample;
}

std::span<const RulerTask> ruler_tasks() { return kTasks; }

Result<Sample> make_ruler_sample(const RulerRequest& request) {
  std::string known;
  for (const RulerTask& task : kTasks) {
    if (task.name == request.task) return task.make(request);
    known += (known.empty() ? "" : ", ") + std::string(task.name);
  }
  return Error{"no RULER task '" + std::string(request.task) + "', expected one of: " + known};
}

}  // namespace kvasir::eval
