// How right an answer is: one number in [0, 1] for a prediction and its question.
//
// Knows texts only. Pure functions in a table by name; a new metric is one function and one line.
#pragma once

#include <span>
#include <string_view>

#include "eval/tasks/sample.h"

namespace kvasir::eval {

struct Metric {
  std::string_view name;  ///< "all_found", "f1", "rouge_l", ...
  std::string_view text;  ///< what it counts, for people
  double (*score)(std::string_view prediction, const Question& question);
};

/// All metrics, in the order in which they are shown.
std::span<const Metric> metrics();

/// The metric called `name`, or null.
const Metric* find_metric(std::string_view name);

}  // namespace kvasir::eval
