// `kvasir eval neighbours`: do the observations that DeltaKV rests on hold in this model?
#pragma once

#include <string>
#include <vector>

namespace kvasir::eval {

/// Runs the command on the words after `neighbours`; returns the exit code.
int neighbours_command(const std::vector<std::string>& args);

}  // namespace kvasir::eval
