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

/// "--kv-x 7".
std::string flag_and_value(std::string_view flag, int64_t value);

/// Fails unless 0 <= value <= 1; NaN fails.
Result<void> check_fraction(std::string_view flag, double value);

/// Fails unless value >= least.
Result<void> check_at_least(std::string_view flag, int64_t value, int64_t least);

/// Flags that not every policy reads, as bits of a set. All policies read --kv-sinks.
enum ReadFlags : uint32_t {
  kReadsBudget = 1U << 0U,
  kReadsHigh = 1U << 1U,
  kReadsLow = 1U << 2U,
  kReadsTau = 1U << 3U,
  kReadsAlpha = 1U << 4U,
  kReadsLambda = 1U << 5U,
  kReadsProtect = 1U << 6U,
  kReadsHeads = 1U << 7U,
  kReadsSeed = 1U << 8U,
  kReadsByAge = 1U << 9U,
  kReadsPyramid = 1U << 10U,
  kReadsShrink = 1U << 11U,
  kReadsBlend = 1U << 12U,
  kReadsBurst = 1U << 13U,
  kReadsScale = 1U << 14U,
  kReadsValues = 1U << 15U,
  kReadsSchedule = 1U << 16U,
};

/// Checks what `name` is given: fails on a parameter that is not at its default and not in `reads`
/// (a set of ReadFlags), because the policy would ignore it, and on one that is out of range
/// whatever else is given. Budgets are checked where they are made (budgets.h).
Result<void> check_params(std::string_view name, const PolicyParams& params, uint32_t reads);

}  // namespace kvasir
