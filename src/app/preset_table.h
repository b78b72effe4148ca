// What `kvasir doctor` says of the presets: their flags, their bytes on a model, and what they cost
// the default model in answers, as measured.
#pragma once

#include <string>

#include "app/model_file.h"
#include "base/result.h"

namespace kvasir::app {

/// A table of all presets, lines of at most 100 characters. Fails with one line where the cost of a
/// preset cannot be computed.
Result<std::string> preset_table(const ModelInfo& model);

}  // namespace kvasir::app
