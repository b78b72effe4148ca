// `kvasir eval premise`: does confidence tell what a step would lose?
#pragma once

#include <string>
#include <vector>

namespace kvasir::eval {

/// Runs the command on the words after `premise`; returns the exit code.
int premise_command(const std::vector<std::string>& args);

}  // namespace kvasir::eval
