#include "policy/checks.h"

#include <array>
#include <charconv>

namespace kvasir {

std::string number_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

Result<void> check_fraction(std::string_view flag, double value) {
  if (value >= 0 && value <= 1) return {};
  return Error{std::string(flag) + " " + number_text(value) + ": allowed is a number from 0 to 1"};
}

Result<void> check_at_least(std::string_view flag, int64_t value, int64_t least) {
  if (value >= least) return {};
  return Error{std::string(flag) + " " + std::to_string(value) + ": allowed is " +
               std::to_string(least) + " or more"};
}

Result<void> check_no_conf_flags(std::string_view name, const PolicyParams& params) {
  const PolicyParams initial;
  const auto refuse = [name](std::string_view flag, const std::string& value) {
    return Error{std::string(flag) + " " + value + ": policy " + std::string(name) +
                 " does not use it; only --kv-policy conf does"};
  };
  if (params.high != initial.high) return refuse("--kv-high", std::to_string(params.high));
  if (params.low != initial.low) return refuse("--kv-low", std::to_string(params.low));
  if (params.tau != initial.tau) return refuse("--kv-tau", number_text(params.tau));
  if (params.alpha != initial.alpha) return refuse("--kv-alpha", number_text(params.alpha));
  if (params.lambda != initial.lambda) return refuse("--kv-lambda", number_text(params.lambda));
  if (params.protect != initial.protect) {
    return refuse("--kv-protect", std::to_string(params.protect));
  }
  return {};
}

}  // namespace kvasir
