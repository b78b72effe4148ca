#include "cache/flag_options.h"

#include <array>

#include "cache/flag_values.h"
#include "cache/format_spec.h"
#include "cache/presets.h"
#include "select/full_layers.h"

namespace kvasir::flags {
namespace {

constexpr std::array<Text, 2> kPrefills = {"exact", "stream"};
constexpr std::array<Text, 2> kMaths = {"f32", "bf16"};
constexpr std::array<Text, 2> kPositions = {"original", "cache"};
constexpr std::array<Text, 2> kHeads = {"mean", "max"};
constexpr std::array<Text, 3> kScales = {"minmax", "rank", "log"};

}  // namespace

Result<void> set_budget(Text flag, Text value, CacheOptions& options) {
  if (value.empty() || value.back() != '%') {
    auto ok = set_count<&P::budget, 1>(flag, value, options);
    if (ok) options.params.budget_percent = 0;
    return ok;
  }
  const auto percent = parse<double>(value.substr(0, value.size() - 1));
  if (!percent || !(*percent > 0 && *percent <= 100)) {
    return not_allowed(flag, value, "a share above 0% and at most 100%");
  }
  options.params.budget_percent = *percent;
  options.params.budget = 0;
  return {};
}

Shown get_budget(const CacheOptions& options) {
  const double percent = options.params.budget_percent;
  return percent != 0 ? Shown(number_text(percent) + "%") : get_count<&P::budget>(options);
}

Result<void> set_pyramid(Text flag, Text value, CacheOptions& options) {
  const size_t comma = value.find(',');
  const auto beta = parse<double>(value.substr(0, comma));
  const Text last = comma == Text::npos ? Text() : value.substr(comma + 1);
  const int32_t n_min = parse<int32_t>(last).value_or(0);
  if (!beta || !(*beta > 0 && *beta <= 1) || n_min < 1) {
    return not_allowed(flag, value,
                       "BETA,NMIN: a number above 0 and at most 1, a whole number from 1 on");
  }
  options.params.pyramid = Pyramid{*beta, n_min};
  return {};
}

Shown get_pyramid(const CacheOptions& options) {
  const auto& pyramid = options.params.pyramid;
  if (!pyramid) return std::nullopt;
  return number_text(pyramid->beta).append(",").append(std::to_string(pyramid->n_min));
}

Result<void> set_heads(Text flag, Text value, CacheOptions& options) {
  const auto heads = word_of<HeadReduction>(flag, value, kHeads);
  if (!heads) return Error{heads.error()};
  options.params.heads = heads.value();
  return {};
}

Shown get_heads(const CacheOptions& options) {
  return options.params.heads == HeadReduction::kMax ? Shown("max") : std::nullopt;
}

Result<void> set_scale(Text flag, Text value, CacheOptions& options) {
  const auto scale = word_of<AttentionScale>(flag, value, kScales);
  if (!scale) return Error{scale.error()};
  options.params.scale = scale.value();
  return {};
}

Shown get_scale(const CacheOptions& options) {
  const auto& scale = options.params.scale;
  return scale ? Shown(kScales[static_cast<size_t>(*scale)]) : std::nullopt;
}

Result<void> set_schedule(Text, Text value, CacheOptions& options) {
  options.params.schedule_path = value;  // validate() reads it
  return {};
}

Shown get_schedule(const CacheOptions& options) {
  const std::string& path = options.params.schedule_path;
  return path.empty() ? std::nullopt : Shown(path);
}

Result<void> set_policy(Text, Text value, CacheOptions& options) {
  options.policy = value;  // validate() asks the registry
  return {};
}

Result<void> set_prefill(Text flag, Text value, CacheOptions& options) {
  const auto mode = word_of<PrefillMode>(flag, value, kPrefills);
  if (!mode) return Error{mode.error()};
  options.prefill = mode.value();
  return {};
}

Result<void> set_math(Text flag, Text value, CacheOptions& options) {
  const auto mode = word_of<MathMode>(flag, value, kMaths);
  if (!mode) return Error{mode.error()};
  options.math = mode.value();
  return {};
}

Result<void> set_positions(Text flag, Text value, CacheOptions& options) {
  const auto mode = word_of<PositionMode>(flag, value, kPositions);
  if (!mode) return Error{mode.error()};
  options.positions = mode.value();
  return {};
}

Result<void> set_select(Text, Text value, CacheOptions& options) {
  options.select = value;  // validate() asks the registry
  return {};
}

Result<void> set_keep(Text flag, Text value, CacheOptions& options) {
  Keep keep;
  if (!value.empty() && value.back() == '%') {
    const auto percent = parse<double>(value.substr(0, value.size() - 1));
    if (!percent || !(*percent > 0 && *percent <= 100)) {
      return not_allowed(flag, value, "a share above 0% and at most 100%");
    }
    keep.percent = *percent;
  } else {
    const auto number = parse<int32_t>(value);
    if (!number || *number < 1) {
      return not_allowed(flag, value, "a whole number of tokens, 1 or more, or a share P%");
    }
    keep.tokens = *number;
  }
  options.select_params.keep = keep;
  return {};
}

Result<void> set_full_layers(Text flag, Text value, CacheOptions& options) {
  std::vector<int32_t> layers;
  for (Text rest = value; value.back() != ',' && !rest.empty();) {
    const size_t comma = rest.find(',');
    const auto layer = parse<int32_t>(rest.substr(0, comma));
    if (!layer || *layer < 0 || (!layers.empty() && *layer <= layers.back())) {
      layers.clear();
      break;
    }
    layers.push_back(*layer);
    rest = comma == Text::npos ? Text() : rest.substr(comma + 1);
  }
  if (layers.empty())
    return not_allowed(flag, value, "ascending numbers of layers with commas: 0,1,2,8,18");
  options.select_params.full_layers = layers;
  return {};
}

Result<void> set_format(Text, Text value, CacheOptions& options) {
  const auto format = parse_format(value);
  if (!format) return Error{format.error()};
  options.format = value;
  return {};
}

Result<void> set_preset(Text, Text value, CacheOptions& options) {
  return apply_preset(value, options);
}

Result<void> set_recent(Text flag, Text value, CacheOptions& options) {
  const auto number = parse<int32_t>(value);
  if (!number || *number < 0)
    return not_allowed(flag, value, "a whole number of tokens, 0 or more");
  options.recent = *number;
  return {};
}

Result<void> set_residual(Text, Text value, CacheOptions& options) {
  const auto params = parse_residual(value, options.residual);
  if (!params) return Error{params.error()};
  options.residual = params.value();
  return {};
}

Shown get_residual(const CacheOptions& options) {
  const std::string text = residual_text(options.residual);
  return text.empty() ? std::nullopt : Shown(text);
}

Result<void> set_rank(Text flag, Text value, CacheOptions& options) {
  const auto number = parse<int32_t>(value);
  if (!number || *number < 1 || *number > 100) {
    return not_allowed(flag, value, "a whole number of percent, 1 to 100");
  }
  options.rank_percent = *number;
  return {};
}

Shown get_rank(const CacheOptions& options) {
  const bool usual = options.rank_percent == kDefaultRank;
  return usual ? std::nullopt : Shown(std::to_string(options.rank_percent));
}

Result<void> set_restored(Text flag, Text value, CacheOptions& options) {
  const auto number = value == "off" ? 0 : parse<int32_t>(value).value_or(-1);
  if (number < 0 || (number == 0 && value != "off")) {
    return not_allowed(flag, value, "a whole number of rows, 1 or more, or off");
  }
  options.restored = number;
  return {};
}

Shown get_restored(const CacheOptions& options) {
  if (options.restored == kUsualRestored) return std::nullopt;
  return options.restored == 0 ? "off" : std::to_string(options.restored);
}

Result<void> set_budget_mb(Text flag, Text value, CacheOptions& options) {
  const auto number = parse<int32_t>(value);
  if (!number || *number < 1) {
    return not_allowed(flag, value, "a whole number of MiB, 1 or more");
  }
  options.budget_mb = *number;
  return {};
}

Shown get_budget_mb(const CacheOptions& options) {
  return options.budget_mb == 0 ? std::nullopt : Shown(std::to_string(options.budget_mb));
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
Shown get_math(const CacheOptions& options) {
  return options.math == MathMode::kBf16 ? Shown("bf16") : std::nullopt;
}
Shown get_positions(const CacheOptions& options) {
  const auto& mode = options.positions;
  return mode ? Shown(kPositions[static_cast<size_t>(*mode)]) : std::nullopt;
}
Shown get_format(const CacheOptions& options) {
  return options.demotes() ? Shown(options.format) : std::nullopt;
}
Shown get_recent(const CacheOptions& options) {
  return options.recent == kDefaultRecent ? std::nullopt : Shown(std::to_string(options.recent));
}
Shown get_select(const CacheOptions& options) {
  return options.selects() ? Shown(options.select) : std::nullopt;
}
Shown get_keep(const CacheOptions& options) {
  const auto& keep = options.select_params.keep;
  if (!keep) return std::nullopt;
  return keep->tokens > 0 ? std::to_string(keep->tokens) : number_text(keep->percent) + "%";
}
Shown get_full_layers(const CacheOptions& options) {
  const auto& layers = options.select_params.full_layers;
  return layers ? Shown(layer_list(*layers)) : std::nullopt;
}
Shown get_trace(const CacheOptions& options) {
  return options.trace_path.empty() ? std::nullopt : Shown(options.trace_path);
}
Shown get_stats(const CacheOptions& options) { return options.stats ? Shown("") : std::nullopt; }

}  // namespace kvasir::flags
