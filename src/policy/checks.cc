#include "policy/checks.h"

#include <array>
#include <charconv>
#include <optional>

namespace kvasir {
namespace {

using Shown = std::optional<std::string>;

Shown shown_if(bool given, const std::string& value) { return given ? Shown(value) : std::nullopt; }

Shown shown(const std::optional<double>& value) {
  return value ? Shown(number_text(*value)) : std::nullopt;
}

struct ParamFlag {
  ReadFlags bit;
  std::string_view name;
  Shown (*given)(const PolicyParams& params);  // its value as text; nothing at its default
};

using P = PolicyParams;

constexpr auto kParamFlags = std::to_array<ParamFlag>({
    {kReadsBudget, "--kv-budget",
     [](const P& p) {
       return p.budget != 0 ? Shown(std::to_string(p.budget))
                            : shown_if(p.budget_percent != 0, number_text(p.budget_percent) + "%");
     }},
    {kReadsHigh, "--kv-high",
     [](const P& p) { return shown_if(p.high != 0, std::to_string(p.high)); }},
    {kReadsLow, "--kv-low", [](const P& p) { return shown_if(p.low != 0, std::to_string(p.low)); }},
    {kReadsTau, "--kv-tau",
     [](const P& p) { return shown_if(p.tau != P{}.tau, number_text(p.tau)); }},
    {kReadsAlpha, "--kv-alpha", [](const P& p) { return shown(p.alpha); }},
    {kReadsLambda, "--kv-lambda", [](const P& p) { return shown(p.lambda); }},
    {kReadsProtect, "--kv-protect",
     [](const P& p) { return p.protect ? Shown(std::to_string(*p.protect)) : std::nullopt; }},
    {kReadsHeads, "--kv-heads",
     [](const P& p) { return shown_if(p.heads != HeadReduction::kMean, "max"); }},
    {kReadsSeed, "--kv-seed",
     [](const P& p) { return shown_if(p.seed != 0, std::to_string(p.seed)); }},
    {kReadsByAge, "--kv-by-age", [](const P& p) { return shown_if(p.by_age, ""); }},
    {kReadsPyramid, "--kv-pyramid",
     [](const P& p) {
       return p.pyramid ? Shown(number_text(p.pyramid->beta)
                                    .append(",")
                                    .append(std::to_string(p.pyramid->n_min)))
                        : std::nullopt;
     }},
    {kReadsShrink, "--kv-shrink",
     [](const P& p) { return shown_if(p.shrink != 0, std::to_string(p.shrink)); }},
    {kReadsBlend, "--kv-blend", [](const P& p) { return shown_if(p.blend, ""); }},
    {kReadsBurst, "--kv-burst",
     [](const P& p) { return shown_if(p.burst != 1, std::to_string(p.burst)); }},
    {kReadsScale, "--kv-scale",
     [](const P& p) {
       constexpr std::array<const char*, 3> kNames = {"minmax", "rank", "log"};
       return p.scale ? Shown(kNames[static_cast<size_t>(*p.scale)]) : std::nullopt;
     }},
    {kReadsValues, "--kv-values", [](const P& p) { return shown_if(p.values, ""); }},
    {kReadsSchedule, "--kv-schedule",
     [](const P& p) { return shown_if(!p.schedule_path.empty(), p.schedule_path); }},
});

std::string names_of(uint32_t reads) {
  std::string names;
  for (const ParamFlag& flag : kParamFlags) {
    if ((reads & flag.bit) != 0) names.append(flag.name).append(", ");
  }
  return names + "--kv-sinks";
}

}  // namespace

std::string number_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string flag_and_value(std::string_view flag, int64_t value) {
  return std::string(flag).append(" ").append(std::to_string(value));
}

Result<void> check_fraction(std::string_view flag, double value) {
  if (value >= 0 && value <= 1) return {};
  return Error{std::string(flag) + " " + number_text(value) + ": allowed is a number from 0 to 1"};
}

Result<void> check_at_least(std::string_view flag, int64_t value, int64_t least) {
  if (value >= least) return {};
  return Error{flag_and_value(flag, value) + ": allowed is " + std::to_string(least) + " or more"};
}

Result<void> check_params(std::string_view name, const PolicyParams& params, uint32_t reads) {
  for (const ParamFlag& flag : kParamFlags) {
    const Shown value = flag.given(params);
    if (!value || (reads & flag.bit) != 0) continue;
    std::string message(flag.name);
    if (!value->empty()) message.append(" ").append(*value);
    message.append(": policy ").append(name).append(" does not use it; it uses ");
    return Error{message.append(names_of(reads))};
  }
  if (auto ok = check_fraction("--kv-tau", params.tau); !ok) return ok;
  if (auto ok = check_fraction("--kv-alpha", params.alpha.value_or(0)); !ok) return ok;
  if (auto ok = check_fraction("--kv-lambda", params.lambda.value_or(0)); !ok) return ok;
  if (auto ok = check_at_least("--kv-protect", params.protect.value_or(0), 0); !ok) return ok;
  if (auto ok = check_at_least("--kv-shrink", params.shrink, 0); !ok) return ok;
  if (auto ok = check_at_least("--kv-burst", params.burst, 1); !ok) return ok;
  return check_at_least("--kv-sinks", params.sinks, 0);
}

}  // namespace kvasir
