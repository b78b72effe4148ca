// Named sets of --kv-* flags: what most people want without reading about policies and formats.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "cache/options.h"

namespace kvasir {

struct Preset {
  std::string_view name;
  std::string_view flags;  ///< as they would be given, split by blanks; no --kv-preset
  std::string_view text;   ///< what it is for, one line
};

/// All of them, from exact to small; the paper's last.
std::span<const Preset> presets();

/// Folds the flags of a preset into `options`: those that it names, no others. Fails with one line
/// that lists the presets if there is none of that name.
Result<void> apply_preset(std::string_view name, CacheOptions& options);

}  // namespace kvasir
