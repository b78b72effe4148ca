// How the value of one flag is read into the options and shown again: what entries of flag_table.cc
// are made of.
//
// Setters fold a value into the options and refuse what is not allowed. Getters give the value as
// text (empty for a switch), or nothing where the options hold the default. Inside src/cache/ only.
#pragma once

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "cache/options.h"
#include "policy/checks.h"

namespace kvasir::flags {

using Text = std::string_view;
using Shown = std::optional<std::string>;
using P = PolicyParams;

/// The whole of `text` as a number; nothing else, no sign "+", no blanks.
template <typename Number>
std::optional<Number> parse(Text text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

inline Error not_allowed(Text flag, Text value, const std::string& allowed) {
  return Error{std::string(flag).append(" ").append(value).append(": allowed is ").append(allowed)};
}

/// The value of an optional, or of what is none.
template <typename T>
std::string count_text(const T& value) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return std::to_string(value);
  } else {
    return std::to_string(*value);
  }
}

/// A whole number, of a member that is int32_t or optional of it.
template <auto P::*kMember, int32_t kLeast>
Result<void> set_count(Text flag, Text value, CacheOptions& options) {
  const auto number = parse<int32_t>(value);
  if (!number || *number < kLeast) {
    return not_allowed(flag, value,
                       "a whole number from " + std::to_string(kLeast) + " to " +
                           std::to_string(std::numeric_limits<int32_t>::max()));
  }
  options.params.*kMember = *number;
  return {};
}

template <auto P::*kMember>
Shown get_count(const CacheOptions& options) {
  const auto& value = options.params.*kMember;
  if (value == P{}.*kMember) return std::nullopt;
  return count_text(value);
}

/// A number from 0 to 1, of a member that is double or optional of it.
template <auto P::*kMember>
Result<void> set_fraction(Text flag, Text value, CacheOptions& options) {
  const auto number = parse<double>(value);
  if (!number) return not_allowed(flag, value, "a number from 0 to 1");
  if (auto ok = check_fraction(flag, *number); !ok) return ok;
  options.params.*kMember = *number;
  return {};
}

template <auto P::*kMember>
Shown get_fraction(const CacheOptions& options) {
  const std::optional<double> value = options.params.*kMember;
  if (value == std::optional<double>(P{}.*kMember)) return std::nullopt;
  return number_text(*value);
}

/// A switch.
template <bool P::*kMember>
Result<void> set_switch(Text, Text, CacheOptions& options) {
  options.params.*kMember = true;
  return {};
}

template <bool P::*kMember>
Shown get_switch(const CacheOptions& options) {
  return options.params.*kMember ? Shown("") : std::nullopt;
}

/// One of some words, in the order of an enumeration's values.
template <typename Enum, size_t kCount>
Result<Enum> word_of(Text flag, Text value, const std::array<Text, kCount>& words) {
  std::string allowed;
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] == value) return static_cast<Enum>(i);
    allowed.append(i == 0 ? "" : i + 1 == kCount ? " or " : ", ").append(words[i]);
  }
  return not_allowed(flag, value, allowed);
}

}  // namespace kvasir::flags
