#include "app/preset_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "app/cost.h"
#include "app/help.h"
#include "cache/presets.h"

namespace kvasir::app {
namespace {

constexpr std::array<int64_t, 1> kLength = {32768};
constexpr double kMiB = 1024.0 * 1024.0;

// What `kvasir eval fidelity` measured for a preset; the file is written by tools/presets.sh.
struct Measured {
  std::string_view name;
  double kl, same_top;
};

struct Measurement {
  const char* model;
  const char* text;
  int tokens;
  double floor;
};

#include "app/preset_costs.inc"

const Measured* measured(std::string_view name) {
  const auto found = std::find_if(kMeasured.begin(), kMeasured.end(),
                                  [name](const Measured& m) { return m.name == name; });
  return found == kMeasured.end() ? nullptr : &*found;
}

Result<std::string> entry(const Preset& preset, const ModelInfo& model) {
  CacheOptions options;
  if (auto applied = apply_preset(preset.name, options); !applied) return Error{applied.error()};
  const auto cost = costs(model, options, kLength);
  if (!cost) return Error{cost.error()};
  char line[256];
  const Measured* seen = measured(preset.name);
  std::snprintf(line, sizeof(line), "%-10s %10.1f", std::string(preset.name).c_str(),
                static_cast<double>(cost.value()[0].steady_bytes) / kMiB);
  std::string text = line;
  if (seen == nullptr) {
    text.append("            not measured");
  } else if (seen->kl < 2 * kMeasurement.floor) {
    std::snprintf(line, sizeof(line), "  %10s  %12.2f", "<= floor", seen->same_top);
    text.append(line);
  } else {
    std::snprintf(line, sizeof(line), "  %10.5f  %12.2f", seen->kl, seen->same_top);
    text.append(line);
  }
  text.append("\n").append(wrap(std::string(preset.text), 4));
  text.append(wrap(std::string(preset.flags), 4));
  return text;
}

}  // namespace

Result<std::string> preset_table(const ModelInfo& model) {
  char line[256];
  std::snprintf(line, sizeof(line), "%-10s %10s  %10s  %12s\n", "--kv-preset", "MiB", "KL, nats",
                "same top, %");
  std::string text = line;
  for (const Preset& preset : presets()) {
    auto lines = entry(preset, model);
    if (!lines) return lines;
    text.append(lines.value());
  }
  std::snprintf(
      line, sizeof(line),
      "MiB: rows of one sequence of %lld tokens on this model. KL and same top: measured on "
      "%s (%s, %d tokens; floor %.2g nats), against the full f16 cache.",
      static_cast<long long>(kLength[0]), kMeasurement.model, kMeasurement.text,
      kMeasurement.tokens, kMeasurement.floor);
  return text.append(wrap(line, 0));
}

}  // namespace kvasir::app
