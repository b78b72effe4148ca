#include "eval/tasks/needle.h"

#include <sstream>
#include <string>

#include "eval/tasks/niah.h"

namespace kvasir::eval {
namespace {

std::string shortest(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

}  // namespace

Result<Sample> make_needle_sample(const NeedleRequest& request, const Material& material,
                                  const CountTokens& count_tokens) {
  const std::string depth = shortest(request.depth_percent);
  if (!(request.depth_percent >= 0 && request.depth_percent <= 100)) {
    return Error{"needle: found depth " + depth + ", expected 0 to 100 percent"};
  }
  const bool is_short = request.kind == ValueKind::kNumber || request.kind == ValueKind::kWord;
  constexpr int32_t kShortAnswer = 32;
  constexpr int32_t kLongAnswer = 128;
  const std::string kind(name_of(request.kind));
  NiahPlan plan;
  plan.task = "needle";
  plan.id = kind + "-" + std::to_string(request.length) + "-" + depth + "-" +
            std::to_string(request.seed);
  plan.draws = "needle-" + kind + "-" + depth;  // the same needle at every length
  plan.length = request.length;
  plan.seed = request.seed;
  plan.haystack = material.essay.empty() ? HaystackKind::kNoise : HaystackKind::kEssay;
  plan.value_kind = request.kind;
  plan.max_new_tokens = is_short ? kShortAnswer : kLongAnswer;
  plan.depth = request.depth_percent / 100;
  Result<Sample> sample = make_niah(plan, material, count_tokens);
  if (sample) {
    sample.value().tags["depth"] = request.depth_percent;
    sample.value().tags["kind"] = kind;
  }
  return sample;
}

}  // namespace kvasir::eval
