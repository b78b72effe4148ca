// `kvasir doctor`: this CPU, this model, and what a set of flags would cost.
//
// Reads metadata only; loads no weights. Prints to stdout in at most 100 columns.
#pragma once

#include <string>
#include <vector>

#include "app/argument_view.h"

namespace kvasir::app {

/// Runs the command with the arguments behind its name. Returns the exit code: 0, or 2 if a flag,
/// the model or KVASIR_ISA was refused.
int doctor_command(std::vector<std::string> args, const EnvLookup& env);

}  // namespace kvasir::app
