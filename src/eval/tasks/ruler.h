// RULER's thirteen tasks by name, made from a seed.
//
// Shape and sizes of RULER's tasks; prompts are our own words except for the niah sentence. A new
// task is a function and a line of the table. Not as in RULER: `length` counts the prompt only and
// not the new tokens as well, and vt and cwe come without a worked example before the question.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "eval/tasks/material.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// What a generator is given.
struct RulerRequest {
  std::string_view task;
  int32_t length = 4096;  ///< tokens of instructions, context and question
  uint64_t seed = 1;      ///< qa_1 and qa_2 ask question `seed` of their source, in turn
  const Material& material;
  const CountTokens& count_tokens;
};

struct RulerTask {
  std::string_view name;
  std::string_view text;  ///< what it asks, for people
  Result<Sample> (*make)(const RulerRequest& request);
};

/// All of them, in RULER's order.
std::span<const RulerTask> ruler_tasks();

/// One sample of the task called `request.task`. Fails with one line if there is no such task, the
/// length is too small for it, or `material` lacks what it needs.
Result<Sample> make_ruler_sample(const RulerRequest& request);

}  // namespace kvasir::eval
