// `kvasir eval fidelity`: what settings cost in next-token distributions, memory and time.
#pragma once

#include <string>
#include <vector>

namespace kvasir::eval {

/// Runs the command on the words after `fidelity`; returns the exit code.
int fidelity_command(const std::vector<std::string>& args);

}  // namespace kvasir::eval
