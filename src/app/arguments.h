// What a llama.cpp front end is given: the user's arguments, checked and completed.
//
// Pure functions: no process, no file, no environment but the lookup that is passed in. They
// decide which combinations of llama.cpp flags and --kv-* flags are refused (each refusal is one
// line) and which arguments are added so that the cache is held by the device and eviction has the
// cells it needs. They do not know how a front end is run (front_ends.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/argument_view.h"
#include "app/command.h"
#include "app/model_file.h"
#include "base/result.h"
#include "cache/options.h"

namespace kvasir::app {

/// Cells of one sequence where an evicting policy may generate past the trained context.
inline constexpr int64_t kEndlessCells = 131072;

/// Sequences that `serve` decodes at once unless -np says otherwise.
inline constexpr int64_t kServeSlots = 4;

/// Where a front end finds its model.
struct ModelSource {
  std::vector<std::string> paths;  ///< local files, several only for bench; empty: see remote
  bool remote = false;             ///< a repository, a URL or a folder of models is named instead
};

/// True if the arguments only ask for text (--help, --version, ...), so that no model is needed.
bool asks_for_text(Command command, const std::vector<std::string>& args, const EnvLookup& env);

/// The model that `args` name; neither paths nor remote when they name none.
ModelSource model_source(Command command, const std::vector<std::string>& args,
                         const EnvLookup& env);

/// Checks `args` (ours already taken off) and completes them for `command`.
/// @param model  metadata of the model, or nothing where it is not a local file
/// Fails with one line for a combination that would leave the cache to somebody else, or that an
/// evicting policy cannot honour.
Result<std::vector<std::string>> prepare_arguments(Command command, std::vector<std::string> args,
                                                   const EnvLookup& env,
                                                   const CacheOptions& options,
                                                   const std::optional<ModelInfo>& model);

}  // namespace kvasir::app
