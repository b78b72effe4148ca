// A llama.cpp argument list as settings: which flag has which value, command line before
// environment.
//
// Knows how many values each flag of a front end takes, so that a prompt that looks like a flag is
// not read as one. Judges nothing: that is arguments.h. A view borrows its list and is invalid
// after the list changes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/command.h"

namespace kvasir::app {

/// One flag of a front end with all its spellings.
struct FlagSpec {
  std::vector<std::string> names;    ///< "-c", "--ctx-size"
  std::vector<std::string> negated;  ///< "--no-kv-offload": sets the value "0"
  int n_values = 0;                  ///< arguments that follow the name
  std::string env;                   ///< environment variable, or empty
};

/// The flags of a front end, from llama.cpp's own parser where it offers them (all but bench and
/// quantize, whose parsers are their own). Made once for each command.
const std::vector<FlagSpec>& flags_of(Command command);

/// Value of an environment variable, or nothing. Tests pass a map.
using EnvLookup = std::function<std::optional<std::string>(const std::string&)>;

/// The process's environment.
EnvLookup process_env();

/// Words that llama.cpp reads as "off" and as "on".
bool is_off(std::string_view value);
bool is_on(std::string_view value);

/// The number that `text` holds from end to end, or nothing.
std::optional<long long> to_number(std::string_view text);

/// A flag that is set.
struct Setting {
  std::string shown;     ///< as the user wrote it: "-ctk q8_0" or "LLAMA_ARG_CACHE_TYPE_K=q8_0"
  std::string value;     ///< first value; "1" or "0" for a switch
  ptrdiff_t index = -1;  ///< of the value in the list; -1: a switch, or from the environment
  bool from_env = false;
};

class ArgumentView {
 public:
  ArgumentView(Command command, std::span<const std::string> args, const EnvLookup& env);

  /// Every setting of the flag that `name` is a spelling of, in order; the environment's alone if
  /// the command line has none. Requires: `name` is a spelling of a flag of this front end, or of
  /// none (then the result is empty).
  std::vector<Setting> all(std::string_view name) const;

  /// The setting that counts (the last one), or nothing.
  std::optional<Setting> find(std::string_view name) const;

  /// True if one of the flags is set.
  bool any(std::initializer_list<std::string_view> names) const;

  /// Arguments that are neither a flag of this front end nor a value of one, in order.
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  struct Found {
    const FlagSpec* flag;
    Setting setting;
  };
  const FlagSpec* spec(std::string_view name) const;

  const std::vector<FlagSpec>& flags_;
  const EnvLookup& env_;
  std::vector<Found> found_;
  std::vector<std::string> unknown_;
};

}  // namespace kvasir::app
