// The 21 tasks of LongBench: how each is asked and scored.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvasir::eval {

struct LongBenchTask {
  std::string_view name;    ///< as in the field "dataset"
  std::string_view metric;  ///< a name of metrics()
  int32_t max_new_tokens;
  bool extended;         ///< LongBench-E has it too
  bool chat;             ///< asked inside the model's chat template
  bool first_line_only;  ///< only the first line of the answer counts
  /// Our own wording with {context} and {input}. Published scores come from the official prompts.
  std::string_view prompt;
};

/// All tasks, in LongBench's order.
std::span<const LongBenchTask> longbench_tasks();

/// The task called `name`, or null.
const LongBenchTask* find_longbench_task(std::string_view name);

}  // namespace kvasir::eval
