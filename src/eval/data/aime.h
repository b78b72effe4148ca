// Competition problems with a whole number as the answer, one JSON object a line.
//
// Fields: problem (or Problem, question), answer (or Answer), a string or a number, and id (or ID);
// a file without ids is numbered by its lines. The model is asked to reason and to box the answer.
// There is no long context: what a cache holds is the model's own reasoning.
#pragma once

#include <string>
#include <vector>

#include "eval/data/data_set.h"

namespace kvasir::eval {

/// New tokens if the options say nothing: room for a long chain of thought.
inline constexpr int32_t kAimeNewTokens = 16384;

Result<std::vector<Sample>> load_aime(const std::string& path, const DataOptions& options);

}  // namespace kvasir::eval
