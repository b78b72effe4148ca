// Models by name: where they lie and what `kvasir model` does.
//
// Knows names and places. Sources, hashes and how copies are made are the business of
// tools/setup/models.sh and its table, which this only calls. No state.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/argument_view.h"
#include "base/result.h"

namespace kvasir::app {

struct NamedModel {
  std::string_view name;
  std::string_view text;
};

/// The model that is used where none is named.
inline constexpr std::string_view kDefaultModel = "smollm2";

/// All names, the default first.
std::span<const NamedModel> named_models();

/// Where the model called `name` lies or would lie: models/NAME.gguf in KVASIR_CACHE_DIR, or in
/// ~/.cache/kvasir. Fails with one line if neither KVASIR_CACHE_DIR nor HOME is set.
/// Requires: `name` is one of named_models().
Result<std::string> named_model_path(std::string_view name, const EnvLookup& env);

/// A name as the path of its file, anything else unchanged (a file that bears the name of a model
/// is reached as ./NAME). Fails with one line if the named model is not there.
Result<std::string> resolve_model(const std::string& name_or_path, const EnvLookup& env);

/// `kvasir model` with `args` behind it; prints and returns the exit code. pull becomes
/// tools/setup/models.sh and returns only if that cannot be run.
int model_command(const std::vector<std::string>& args, const EnvLookup& env);

}  // namespace kvasir::app
