// `kvasir calibrate`: chooses the full layers of --kv-select omnikv for a model.
//
// Reads a text with the model on the CPU, prints to stdout, writes one file.
#pragma once

#include <string>
#include <vector>

#include "app/argument_view.h"

namespace kvasir::app {

/// Runs the command with the arguments behind its name. Returns the exit code: 0, 1 if the run
/// failed, 2 if a flag, the model or the file to write was refused.
int calibrate_command(const std::vector<std::string>& args, const EnvLookup& env);

}  // namespace kvasir::app
