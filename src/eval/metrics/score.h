// From what a model wrote to a score: the part that counts, then the question's metric.
#pragma once

#include <string_view>

#include "base/result.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// The text up to the first line break, once line breaks at the start are removed.
std::string_view first_line(std::string_view answer);

/// The score in [0, 1] of an answer by the question's own metric; only the first line of the answer
/// counts if the question says so. Fails with one line if there is no such metric.
Result<double> score_answer(std::string_view answer, const Question& question);

}  // namespace kvasir::eval
