#include "cache/flag_table.h"

#include <array>
#include <charconv>
#include <limits>
#include <type_traits>

#include "cache/format_spec.h"
#include "policy/checks.h"

namespace kvasir {
namespace {

using Text = std::string_view;
using Shown = std::optional<std::string>;

/// The whole of `text` as a number; nothing else, no sign "+", no blanks.
template <typename Number>
std::optional<Number> parse(Text text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Error not_allowed(Text flag, Text value, const std::string& allowed) {
  return Error{std::string(flag) + " " + std::string(value) + ": allowed is " + allowed};
}

// Setters: fold the value of a flag into the options. Getters: the value as text, or nothing where
// the options hold the default.

template <int32_t PolicyParams::*kMember, int32_t kLeast>
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

template <int32_t PolicyParams::*kMember>
std::optional<std::string> get_count(const CacheOptions& options) {
  const int32_t value = options.params.*kMember;
  if (value == PolicyParams{}.*kMember) return std::nullopt;
  return std::to_string(value);
}

template <double PolicyParams::*kMember>
Result<void> set_fraction(Text flag, Text value, CacheOptions& options) {
  const auto number = parse<double>(value);
  if (!number) return not_allowed(flag, value, "a number from 0 to 1");
  if (auto ok = check_fraction(flag, *number); !ok) return ok;
  options.params.*kMember = *number;
  return {};
}

template <double PolicyParams::*kMember>
std::optional<std::string> get_fraction(const CacheOptions& options) {
  const double value = options.params.*kMember;
  if (value == PolicyParams{}.*kMember) return std::nullopt;
  return number_text(value);
}

/// A flag with two values; the first is the default.
template <auto CacheOptions::*kMember>
Result<void> set_either(Text flag, Text value, CacheOptions& options, Text first, Text second) {
  using Mode = std::remove_reference_t<decltype(options.*kMember)>;
  if (value != first && value != second) {
    return not_allowed(flag, value, std::string(first) + " or " + std::string(second));
  }
  options.*kMember = static_cast<Mode>(value == second);
  return {};
}

Result<void> set_budget(Text flag, Text value, CacheOptions& options) {
  if (!value.empty() && value.back() == '%') {
    return Error{std::string(flag) + " " + std::string(value) +
                 ": shares are not in this version; give a number of tokens"};
  }
  return set_count<&PolicyParams::budget, 1>(flag, value, options);
}

Result<void> set_policy(Text, Text value, CacheOptions& options) {
  options.policy = value;  // validate() asks the registry
  return {};
}

Result<void> set_prefill(Text flag, Text value, CacheOptions& options) {
  return set_either<&CacheOptions::prefill>(flag, value, options, "exact", "stream");
}

Result<void> set_positions(Text flag, Text value, CacheOptions& options) {
  return set_either<&CacheOptions::positions>(flag, value, options, "original", "cache");
}

/// Accepts the one value that names what this version does.
template <const char* kOnly>
Result<void> accept_only(Text flag, Text value, CacheOptions&) {
  if (value == kOnly) return {};
  return Error{std::string(flag) + " " + std::string(value) + ": not in this version; allowed is " +
               kOnly};
}
constexpr char kDense[] = "dense";

Result<void> set_format(Text, Text value, CacheOptions& options) {
  const auto format = parse_format(value);
  if (!format) return Error{format.error()};
  options.format = value;
  return {};
}

Result<void> set_recent(Text flag, Text value, CacheOptions& options) {
  const auto number = parse<int32_t>(value);
  if (!number || *number < 0)
    return not_allowed(flag, value, "a whole number of tokens, 0 or more");
  options.recent = *number;
  return {};
}

Result<void> set_trace(Text, Text value, CacheOptions& options) {
  options.trace_path = value;
  return {};
}

Result<void> set_stats(Text, Text, CacheOptions& options) {
  options.stats = true;
  return {};
}

Shown nothing(const CacheOptions&) { return std::nullopt; }
Shown get_policy(const CacheOptions& options) { return options.policy; }
Shown get_prefill(const CacheOptions& options) {
  return options.prefill == PrefillMode::kStream ? Shown("stream") : std::nullopt;
}
Shown get_positions(const CacheOptions& options) {
  return options.positions == PositionMode::kCache ? Shown("cache") : std::nullopt;
}
Shown get_format(const CacheOptions& options) {
  return options.demotes() ? Shown(options.format) : std::nullopt;
}
Shown get_recent(const CacheOptions& options) {
  return options.recent == kDefaultRecent ? std::nullopt : Shown(std::to_string(options.recent));
}
Shown get_trace(const CacheOptions& options) {
  return options.trace_path.empty() ? std::nullopt : Shown(options.trace_path);
}
Shown get_stats(const CacheOptions& options) { return options.stats ? Shown("") : std::nullopt; }

using P = PolicyParams;

constexpr auto kFlags = std::to_array<Flag>({
    {{"--kv-policy", "NAME",
      "which tokens stay; none: all; window: the first and the newest; conf: CONF-KV, budget from "
      "confidence, ranked by attention and recency",
      "none", "none, window, conf"},
     set_policy,
     get_policy},
    {{"--kv-budget", "N",
      "live tokens per layer, sink and protected tokens included; conf: N when unsure, half of it "
      "when sure",
      "none; window needs it",
      "tokens, at least sinks + 1 (window) or 2 (sinks + protect + 1) (conf); refused with none"},
     set_budget,
     get_count<&P::budget>},
    {{"--kv-high", "N", "conf: budget of steps that are sure (c >= tau), the tighter one",
      "half of --kv-budget, else 128", "tokens, at least sinks + protect + 1, at most --kv-low"},
     set_count<&P::high, 1>,
     get_count<&P::high>},
    {{"--kv-low", "N", "conf: budget of steps that are unsure or had no logits",
      "--kv-budget, else 256", "tokens, at least --kv-high"},
     set_count<&P::low, 1>,
     get_count<&P::low>},
    {{"--kv-tau", "X", "conf: confidence from which a step counts as sure", "0.7", "0 to 1"},
     set_fraction<&P::tau>,
     get_fraction<&P::tau>},
    {{"--kv-alpha", "X", "conf: weight of attention against recency; 0 ranks by recency alone",
      "0.65", "0 to 1"},
     set_fraction<&P::alpha>,
     get_fraction<&P::alpha>},
    {{"--kv-lambda", "X", "conf: share of the past in the moving average of attention", "0.9",
      "0 to 1"},
     set_fraction<&P::lambda>,
     get_fraction<&P::lambda>},
    {{"--kv-protect", "N", "conf: newest tokens that are never evicted", "32", "0 or more"},
     set_count<&P::protect, 0>,
     get_count<&P::protect>},
    {{"--kv-sinks", "N", "first tokens that are never evicted; the paper of conf keeps none", "4",
      "0 or more"},
     set_count<&P::sinks, 0>,
     get_count<&P::sinks>},
    {{"--kv-format", "NAME",
      "how tokens older than the recent window are stored (sink tokens stay f16); K/V apart as in "
      "int8/int4; the first or last N layers differ behind a comma: k5v4,first=2:int8",
      "f16", "f16, int8, int8-channel, int4, nf4, kivi4, kivi2, k8v4, k5v4, k4v4, k4v2, k3v2"},
     set_format,
     get_format},
    {{"--kv-recent", "N", "newest tokens that stay f16; as many more as a format encodes at once",
      "128", "0 or more; with a --kv-format other than f16 only"},
     set_recent,
     get_recent},
    {{"--kv-select", "NAME", "which stored tokens a step reads: all of them", "dense", "dense"},
     accept_only<kDense>,
     nothing},
    {{"--kv-prefill", "MODE",
      "exact: the whole prompt is computed first, eviction starts with the first decoded token; "
      "stream: each chunk of the prompt is cut to the budget, so that peak memory is bounded",
      "exact", "exact, stream; stream where tokens are evicted or demoted only"},
     set_prefill,
     get_prefill},
    {{"--kv-positions", "MODE",
      "original: tokens keep their positions; cache: they count by place in the cache, for texts "
      "longer than the model was trained for",
      "original", "original, cache; cache with an evicting policy only"},
     set_positions,
     get_positions},
    {{"--kv-trace", "FILE", "appends a JSON line for each step to FILE", "none",
      "a file that can be written"},
     set_trace,
     get_trace},
    {{"--kv-stats", "", "prints statistics at exit", "", ""}, set_stats, get_stats},
});

constexpr auto kHelp = [] {
  std::array<FlagHelp, kFlags.size()> help{};
  for (size_t i = 0; i < help.size(); ++i) help[i] = kFlags[i].help;
  return help;
}();

constexpr auto kReserved = std::to_array<ReservedFlag>({
    {"--kv-pyramid", "every layer has the same budget: --kv-budget, --kv-high, --kv-low"},
    {"--kv-keep", "a step reads every stored token (--kv-select dense)"},
    {"--kv-budget-mb", "budgets are in tokens per layer: --kv-budget, --kv-high, --kv-low"},
    {"--kv-preset", "choose --kv-policy none, window or conf and its parameters"},
});

}  // namespace

std::span<const Flag> flag_table() { return kFlags; }

std::span<const FlagHelp> flag_help() { return kHelp; }

std::span<const ReservedFlag> reserved_flags() { return kReserved; }

}  // namespace kvasir
