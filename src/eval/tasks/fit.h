// Makes a sample as long as asked, counting tokens as seldom as possible.
//
// Knows that a sample grows with its number of units (words, pairs, shots); knows no task.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// Tokens of instructions, context and first question, each counted for itself. Later questions,
/// answers and the chat template come on top.
int32_t sample_tokens(const Sample& sample, const CountTokens& count_tokens);

struct FitPlan {
  std::string name{};  ///< of the task, for messages
  int32_t length = 0;  ///< tokens asked for
  int64_t least = 0;   ///< units without which the task is none
  int64_t most = 0;    ///< units that there are
};

/// The sample with that many units. Only its context may depend on the number.
using BuildSample = std::function<Sample(int64_t units)>;

/// The sample of `plan.length` tokens: 98 to 100 % of them, or, where one unit is longer than
/// that, as near as whole units come and at most 102 %. Tags "length" and "tokens" say what was
/// asked and counted. Counts tokens 20 times at most, 5 to 8 as a rule.
/// Fails with one line if the smallest sample is longer or the largest shorter.
Result<Sample> fit_sample(const FitPlan& plan, const CountTokens& count_tokens,
                          const BuildSample& build);

}  // namespace kvasir::eval
