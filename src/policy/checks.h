// Refusals that several policies share, each one line: the flag, the value found, what is allowed.
//
// Knows the names of the --kv-* flags, nothing of how they are parsed. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/policy.h"

namespace kvasir {

/// The shortest text that reads back as the same double.
std::string number_text(double value);

/// Fails unless 0 <= value <= 1; NaN fails.
Result<void> check_fraction(std::string_view flag, double value);

/// Fails unless value >= least.
Result<void> check_at_least(std::string_view flag, int64_t value, int64_t least);

/// Fails if a parameter that only `conf` reads differs from its default, because policy `name`
/// would ignore it.
Result<void> check_no_conf_flags(std::string_view name, const PolicyParams& params);

}  // namespace kvasir
