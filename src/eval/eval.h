// `kvasir eval`: finds the kind of evaluation and hands over.
#pragma once

#include <string>
#include <vector>

namespace kvasir::eval {

/// Runs `kvasir eval` on the words after it; returns the exit code.
int eval_command(const std::vector<std::string>& args);

}  // namespace kvasir::eval
