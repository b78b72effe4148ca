// Runs a llama.cpp front end in this process with the cache on the device.
//
// Reads flags, environment, the model's metadata and the calibration beside it, hands the decisions
// to arguments.h, registers the device and calls the front end. Prints refusals; called once from
// main().
#pragma once

#include <string>
#include <vector>

#include "app/argument_view.h"
#include "app/command.h"
#include "app/model_file.h"
#include "base/result.h"
#include "cache/options.h"
#include "kernels/kernels.h"

namespace kvasir::app {

/// The --kv-* flags of KVASIR_FLAGS, then those of `args`, which are taken out of it.
/// Fails with one line on a flag that is refused, or on a word of KVASIR_FLAGS that is none of
/// ours.
Result<CacheOptions> read_options(std::vector<std::string>& args, const EnvLookup& env);

/// The kernel table that KVASIR_ISA names, or this CPU's fastest. Fails with one line that lists
/// the tables of this CPU.
Result<const KvKernels*> chosen_kernels(const EnvLookup& env);

/// Runs `entry` with `args`, the arguments behind its name. Returns the exit code: 0, 1 if the
/// front end failed, 2 if flags or model were refused.
int run_front_end(const FrontEnd& entry, std::vector<std::string> args);

/// Prints llama.cpp's own help of `entry` and ends the process, as the front end does.
int print_llama_help(const FrontEnd& entry);

}  // namespace kvasir::app
