#include "eval/metrics/score.h"

#include <string>

#include "eval/metrics/metric.h"

namespace kvasir::eval {

std::string_view first_line(std::string_view answer) {
  const size_t start = answer.find_first_not_of('\n');
  if (start == answer.npos) return {};
  return answer.substr(start, answer.find('\n', start) - start);
}

Result<double> score_answer(std::string_view answer, const Question& question) {
  const Metric* metric = find_metric(question.metric);
  if (metric == nullptr) {
    std::string known;
    for (const auto& each : metrics())
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    return Error{"no metric '" + question.metric + "', expected one of: " + known};
  }
  return metric->score(question.first_line_only ? first_line(answer) : answer, question);
}

}  // namespace kvasir::eval
