// The table behind options.cc: for each flag of ours its help, how its value is read and shown.
//
// A new flag is one entry here and its row in docs/flags.md, which a test compares. Knows the value
// of one flag at a time, not combinations. Constant data and pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cache/options.h"

namespace kvasir {

struct Flag {
  FlagHelp help;
  /// Folds the value into the options; fails with one line on a value that is not allowed.
  Result<void> (*set)(std::string_view flag, std::string_view value, CacheOptions& options);
  /// The value in `options` as text (empty for a switch), or nothing where it is the default.
  std::optional<std::string> (*get)(const CacheOptions& options);
};

/// All flags that this version offers, in the order in which they are shown.
std::span<const Flag> flag_table();

}  // namespace kvasir
