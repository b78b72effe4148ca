#include "cache/options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cache/flag_table.h"
#include "cache/flag_words.h"
#include "cache/format_spec.h"
#include "cache/schedule.h"
#include "cache/trace.h"

namespace kvasir {
namespace {

using Text = std::string_view;

/// "--kv-x=V" or "--kv-x" taken apart.
struct Argument {
  Text name;
  std::optional<Text> value;
};

Argument take_apart(Text argument) {
  const size_t equals = argument.find('=');
  if (equals == Text::npos) return {argument, std::nullopt};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

Error needs_value(const FlagHelp& help, const std::string& found) {
  return Error{std::string(help.name) + " needs a value " + std::string(help.value) + ", found " +
               found + (help.allowed.empty() ? "" : "; allowed: ") + std::string(help.allowed)};
}

/// The value of the flag at args[at], which may stand in the next argument; `at` then moves on.
Result<Text> value_of(const FlagHelp& help, const Argument& argument,
                      std::span<const std::string> args, size_t& at) {
  const bool is_switch = help.value.empty();
  if (argument.value) {
    if (is_switch) {
      return Error{std::string(help.name) + " takes no value, found \"" +
                   std::string(*argument.value) + "\""};
    }
    if (argument.value->empty()) return needs_value(help, "an empty one");
    return *argument.value;
  }
  if (is_switch) return Text();
  if (at + 1 == args.size()) return needs_value(help, "the end of the line");
  const Text next = args[at + 1];
  if (next.empty()) return needs_value(help, "an empty one");
  if (next.starts_with("--")) return needs_value(help, "the flag " + std::string(next));
  ++at;
  return next;
}

const Flag* find_flag(Text name) {
  const auto found = std::find_if(flag_table().begin(), flag_table().end(),
                                  [name](const Flag& flag) { return flag.help.name == name; });
  return found == flag_table().end() ? nullptr : &*found;
}

// A selection, and what it cannot be joined with.
Result<void> check_selection(const CacheOptions& options, const Policy& policy) {
  const auto selector = make_selector(options.select, options.select_params);
  if (!selector) return Error{selector.error()};
  if (!options.selects()) return {};
  const std::string flag = "--kv-select " + options.select;
  const Needs needs = policy.needs();
  if (policy.evicts() && (needs.step_mass || needs.observed_queries > 0 || needs.column_sums)) {
    std::string message = flag + " with --kv-policy " + options.policy;
    return Error{
        message.append(": the policy looks at attention, of which a step that reads fewer "
                       "tokens shows a part; use a policy that does not")};
  }
  if (options.position_mode() == PositionMode::kCache) {
    return Error{flag + " with --kv-positions cache: allowed is --kv-positions original"};
  }
  return {};
}

}  // namespace

bool CacheOptions::evicts() const { return policy != "none"; }

std::string CacheOptions::mover() const {
  if (evicts()) return "--kv-policy " + policy;
  return demotes() ? "--kv-format " + format : "--kv-select " + select;
}

PositionMode CacheOptions::position_mode() const {
  if (positions) return *positions;
  const Result<Policy> made = policy_of(*this);
  return made && made.value().positions_in_cache ? PositionMode::kCache : PositionMode::kOriginal;
}

bool CacheOptions::budget_from_cap() const {
  return budget_mb > 0 && params.budget == 0 && params.budget_percent == 0 && params.high == 0 &&
         params.low == 0 && params.schedule_path.empty();
}

Result<Policy> policy_of(const CacheOptions& options) {
  PolicyParams params = options.params;
  params.from_cap = options.budget_from_cap();
  if (params.schedule_path.empty()) return make_policy(options.policy, params);
  Result<std::vector<int32_t>> schedule = read_schedule(params.schedule_path);
  if (!schedule) return Error{schedule.error()};
  params.schedule = std::move(schedule.value());
  return make_policy(options.policy, params);
}

std::string flag_help_text() {
  std::string out;
  for (const FlagHelp& help : flag_help()) {
    out.append(help.name).append(help.value.empty() ? "" : " ").append(help.value);
    out.append("\n    ").append(help.text).append("\n");
    if (help.value.empty()) continue;
    out.append("    default: ").append(help.initial);
    out.append("; allowed: ").append(help.allowed).append("\n");
  }
  return out;
}

Result<void> take_flags(std::vector<std::string>& args, CacheOptions& options) {
  CacheOptions changed = options;
  std::vector<std::string> rest;
  for (size_t at = 0; at < args.size(); ++at) {
    const Argument argument = take_apart(args[at]);
    const Flag* flag = find_flag(argument.name);
    if (flag == nullptr) {
      rest.push_back(args[at]);
      continue;
    }
    const auto value = value_of(flag->help, argument, args, at);
    if (!value) return Error{value.error()};
    if (auto ok = flag->set(argument.name, value.value(), changed); !ok) return ok;
  }
  args = std::move(rest);
  options = std::move(changed);
  return {};
}

std::string describe(const CacheOptions& options) {
  std::string out;
  for (const Flag& flag : flag_table()) {
    const auto value = flag.get(options);
    if (!value) continue;
    out.append(out.empty() ? "" : " ").append(flag.help.name);
    if (flag.help.value.empty()) continue;
    // A separate argument that starts with "--" would not be read as a value.
    out.append(value->starts_with("--") ? "=" : " ").append(quote_word(*value));
  }
  return out;
}

Result<void> validate(const CacheOptions& options) {
  const auto policy = policy_of(options);
  if (!policy) return Error{policy.error()};
  const auto needs_eviction = [&](const std::string& flag) {
    return Error{flag + " needs a policy that evicts, found --kv-policy " + options.policy};
  };
  const auto format = parse_format(options.format);
  if (!format) return Error{format.error()};
  if (auto ok = check_selection(options, policy.value()); !ok) return ok;
  if (options.recent != kDefaultRecent && !options.demotes() && !options.selects()) {
    return Error{"--kv-recent " + std::to_string(options.recent) +
                 ": every token is f16 (--kv-format f16); choose the format of older ones"};
  }
  if (options.rank_percent != kDefaultRank && !format.value().uses(ColdStore::kLatent)) {
    return Error{"--kv-rank " + std::to_string(options.rank_percent) +
                 ": no layer has --kv-format latent, found " + options.format};
  }
  const bool restores =
      format.value().uses(ColdStore::kResidual) || format.value().uses(ColdStore::kLatent);
  if (options.restored > 0 && options.budget_mb > 0) {
    return Error{"--kv-restored " + std::to_string(options.restored) +
                 ": no restored rows are kept under --kv-budget-mb; leave it out"};
  }
  if (options.restored != kUsualRestored && !(restores && options.selects())) {
    return Error{"--kv-restored " +
                 (options.restored == 0 ? "off" : std::to_string(options.restored)) +
                 ": restored rows are kept with --kv-format residual or latent and a --kv-select "
                 "other than dense, found --kv-format " +
                 options.format + " and --kv-select " + options.select};
  }
  const bool residual = format.value().uses(ColdStore::kResidual);
  if (options.residual != ResidualParams{} && !residual) {
    return Error{"--kv-residual " + residual_text(options.residual) +
                 ": no layer has --kv-format " + "residual, found " + options.format};
  }
  if (!policy.value().evicts()) {
    if (options.budget_mb > 0) {
      std::string message = "--kv-budget-mb " + std::to_string(options.budget_mb);
      message += ": every token stays (--kv-policy none); choose one of ";
      bool first = true;
      for (const Text name : policy_names()) {
        if (name == "none") continue;
        message.append(first ? "" : ", ").append(name);
        first = false;
      }
      return Error{message};
    }
    if (options.prefill == PrefillMode::kStream && !options.demotes()) {
      return needs_eviction("--kv-prefill stream");
    }
    if (options.positions == PositionMode::kCache) return needs_eviction("--kv-positions cache");
  }
  return options.trace_path.empty() ? Result<void>() : TraceWriter::check(options.trace_path);
}

}  // namespace kvasir
