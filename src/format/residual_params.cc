// --kv-residual as text.
#include <array>
#include <charconv>
#include <optional>

#include "format/residual_codec.h"

namespace kvasir {
namespace {

using Text = std::string_view;

constexpr std::array<Text, 2> kSwitch{"off", "on"};
constexpr std::array<Text, 2> kReferences{"f16", "int8"};
constexpr std::array<Text, 4> kChoices{"nearest", "local", "random", "mean"};
constexpr std::array<Text, 2> kMetrics{"full", "halves"};
constexpr std::array<Text, 2> kScopes{"token", "head"};
constexpr Text kAllowed =
    "s=1..128, k=1..16, bits=2|4|16, group=32|64, turn=on|off, refs=int8|f16, "
    "choose=nearest|local|random|mean, metric=full|halves, per=token|head, with commas between "
    "them";

template <size_t kCount>
std::optional<int32_t> index_of(Text value, const std::array<Text, kCount>& words) {
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] == value) return static_cast<int32_t>(i);
  }
  return std::nullopt;
}

std::optional<int32_t> number(Text value, int32_t least, int32_t most) {
  int32_t n = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), n);
  const bool whole = code == std::errc() && end == value.data() + value.size();
  return whole && n >= least && n <= most ? std::optional(n) : std::nullopt;
}

// False if the key is unknown or its value not allowed.
bool set(Text key, Text value, ResidualParams& params) {
  std::optional<int32_t> n;
  if (key == "s" && (n = number(value, 1, kMaxStride))) {
    params.stride = *n;
  } else if (key == "k" && (n = number(value, 1, kMostNeighbours))) {
    params.neighbours = *n;
  } else if (key == "bits" && (n = number(value, 2, 16)) && (*n == 2 || *n == 4 || *n == 16)) {
    params.bits = *n;
  } else if (key == "group" && (n = number(value, 32, 64)) && (*n == 32 || *n == 64)) {
    params.group = *n;
  } else if (key == "turn" && (n = index_of(value, kSwitch))) {
    params.turned = *n == 1;
  } else if (key == "refs" && (n = index_of(value, kReferences))) {
    params.int8 = *n == 1;
  } else if (key == "choose" && (n = index_of(value, kChoices))) {
    params.choice = static_cast<ReferenceChoice>(*n);
  } else if (key == "metric" && (n = index_of(value, kMetrics))) {
    params.metric = static_cast<ReferenceMetric>(*n);
  } else if (key == "per" && (n = index_of(value, kScopes))) {
    params.per_head = *n == 1;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<ResidualParams> parse_residual(std::string_view text, ResidualParams params) {
  Text rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const Text part = rest.substr(0, comma);
    rest = comma == Text::npos ? Text() : rest.substr(comma + 1);
    const size_t equals = part.find('=');
    const Text value = equals == Text::npos ? Text() : part.substr(equals + 1);
    if (set(part.substr(0, equals), value, params)) continue;
    std::string message = "--kv-residual ";
    message.append(text).append(": found \"").append(part).append("\"; allowed are ");
    return Error{message.append(kAllowed)};
  }
  return params;
}

std::string residual_text(const ResidualParams& params) {
  const ResidualParams usual;
  std::string out;
  const auto add = [&out](Text key, Text value) {
    out.append(out.empty() ? "" : ",").append(key).append("=").append(value);
  };
  if (params.stride != usual.stride) add("s", std::to_string(params.stride));
  if (params.neighbours != usual.neighbours) add("k", std::to_string(params.neighbours));
  if (params.bits != usual.bits) add("bits", std::to_string(params.bits));
  if (params.group != usual.group) add("group", std::to_string(params.group));
  if (params.turned != usual.turned) add("turn", kSwitch.at(params.turned ? 1 : 0));
  if (params.int8 != usual.int8) add("refs", kReferences.at(params.int8 ? 1 : 0));
  if (params.choice != usual.choice) add("choose", kChoices.at(static_cast<size_t>(params.choice)));
  if (params.metric != usual.metric) add("metric", kMetrics.at(static_cast<size_t>(params.metric)));
  if (params.per_head != usual.per_head) add("per", kScopes.at(params.per_head ? 1 : 0));
  return out;
}

}  // namespace kvasir
