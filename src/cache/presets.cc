#include "cache/presets.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>

namespace kvasir {
namespace {

constexpr std::array kPresets = {
    Preset{"exact", "--kv-policy none --kv-format f16",
           "every token in f16, as stock llama.cpp keeps it"},
    Preset{"light", "--kv-policy none --kv-format int8",
           "every token, older ones at 8 bits: about half the memory, no difference to be seen"},
    Preset{"balanced", "--kv-policy none --kv-format k5v4 --kv-sinks 8",
           "every token, older ones at 5 bits for K and 4 for V: about a third of the memory"},
    Preset{"small", "--kv-policy conf+ --kv-budget 50% --kv-format k5v4 --kv-sinks 8",
           "half of the tokens, older ones at 5 and 4 bits: about a sixth; what leaves is gone"},
    Preset{"paper",
           "--kv-policy conf --kv-high 128 --kv-low 256 --kv-sinks 0 --kv-format int8-channel "
           "--kv-recent 128",
           "CONF-KV as published (arXiv 2605.24786, table 5, WikiText-2): a fixed few tokens"},
};

}  // namespace

std::span<const Preset> presets() { return kPresets; }

Result<void> apply_preset(std::string_view name, CacheOptions& options) {
  const auto found = std::find_if(kPresets.begin(), kPresets.end(),
                                  [name](const Preset& preset) { return preset.name == name; });
  if (found == kPresets.end()) {
    std::string message = "--kv-preset ";
    message.append(name).append(": no such preset; allowed are ");
    for (const Preset& preset : kPresets) {
      message.append(&preset == &kPresets.front() ? "" : ", ").append(preset.name);
    }
    return Error{message};
  }
  auto words = split_flags(found->flags);
  assert(words);
  return take_flags(words.value(), options);
}

}  // namespace kvasir
