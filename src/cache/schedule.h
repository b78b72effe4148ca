// Reads the trace of a former run (trace.h) as a schedule of budgets for --kv-schedule.
//
// Of each line it wants "step", "stream" and "budget", whatever else stands there; lines whose
// budget is null (a prompt that is read) give none. The n-th budget is that of the n-th step that
// asks for one, so that a policy that replays it evicts as many tokens at each step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvasir {

/// The budgets of a trace file, in order. Fails with one line that names the file, and where a line
/// is at fault its number: not a trace line, a second stream, a step that does not follow.
Result<std::vector<int32_t>> read_schedule(const std::string& path);

/// The same of a text; `name` stands for it in refusals.
Result<std::vector<int32_t>> parse_schedule(std::string_view text, const std::string& name);

}  // namespace kvasir
