#include "eval/run/settings.h"

#include <set>

namespace kvasir::eval {
namespace {

constexpr const char* kReference = "full";

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Folds `flags` into `options`; what is not a flag of the cache is refused.
Result<void> fold(const std::string& where, const std::string& flags, CacheOptions& options) {
  auto words = split_flags(flags);
  if (!words) return Error{where + ": " + words.error()};
  auto taken = take_flags(words.value(), options);
  if (!taken) return Error{where + ": " + taken.error()};
  if (!words.value().empty()) {
    return Error{where + ": '" + words.value().front() + "' is no --kv-* flag"};
  }
  return {};
}

Result<Setting> parse_set(const std::string& text, const CacheOptions& base) {
  const size_t colon = text.find(':');
  const std::string name = trimmed(text.substr(0, colon));
  if (colon == std::string::npos || name.empty() || name.front() == '-') {
    return Error{"--set '" + text + "': expected \"NAME: --kv-policy window --kv-budget 256\""};
  }
  Setting setting{name, base};
  auto folded = fold("--set " + name, text.substr(colon + 1), setting.options);
  if (!folded) return Error{folded.error()};
  return setting;
}

struct Sweep {
  std::string text;  // as it was given, for errors
  std::string flag;
  std::vector<std::string> values;
};

// "kv-tau=0.5,0.7"; the flag may have its dashes, too.
Result<Sweep> parse_sweep(const std::string& text) {
  const size_t equals = text.find('=');
  Sweep sweep{text, text.substr(0, equals), {}};
  if (sweep.flag.rfind("kv-", 0) == 0) sweep.flag.insert(0, "--");
  std::string rest = equals == std::string::npos ? "" : text.substr(equals + 1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (comma != 0) sweep.values.push_back(rest.substr(0, comma));
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  if (sweep.values.empty() || sweep.flag.rfind("--kv-", 0) != 0) {
    return Error{"--sweep '" + text + "': expected a flag with values, kv-tau=0.5,0.7,0.9"};
  }
  return sweep;
}

Result<void> apply_sweep(const Sweep& sweep, std::vector<Setting>& settings) {
  std::vector<Setting> all;
  for (const Setting& setting : settings) {
    for (const std::string& value : sweep.values) {
      Setting one = setting;
      one.name.append(" ").append(sweep.flag, 5).append("=").append(value);
      std::vector<std::string> words = {sweep.flag};
      words.front().append("=").append(value);
      auto taken = take_flags(words, one.options);
      if (!taken) return Error{"--sweep " + sweep.text + ": " + taken.error()};
      if (!words.empty()) return Error{"--sweep " + sweep.text + ": no --kv-* flag"};
      all.push_back(std::move(one));
    }
  }
  settings = std::move(all);
  return {};
}

Result<void> check(const std::vector<Setting>& settings) {
  for (size_t i = 0; i < settings.size(); ++i) {
    auto valid = validate(settings[i].options);
    if (!valid) return Error{"setting '" + settings[i].name + "': " + valid.error()};
    for (size_t k = 0; k < i; ++k) {
      if (settings[k].name == settings[i].name) {
        return Error{"two settings are named '" + settings[i].name + "'" +
                     (k == 0 ? ": that is the reference's name" : "")};
      }
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Setting>> make_settings(const SettingRequest& request) {
  std::vector<Setting> asked;
  for (const std::string& text : request.sets) {
    auto setting = parse_set(text, request.base);
    if (!setting) return Error{setting.error()};
    asked.push_back(std::move(setting.value()));
  }
  if (request.sets.empty() && (request.base_given || !request.sweeps.empty())) {
    asked.push_back({request.base.policy, request.base});
  }
  std::set<std::string> swept;
  for (const std::string& text : request.sweeps) {
    auto sweep = parse_sweep(text);
    if (!sweep) return Error{sweep.error()};
    if (!swept.insert(sweep.value().flag).second) {
      return Error{"--sweep " + text + ": this flag is swept already; give all values at once"};
    }
    auto applied = apply_sweep(sweep.value(), asked);
    if (!applied) return Error{applied.error()};
  }
  std::vector<Setting> settings = {{kReference, CacheOptions{}}};
  settings.insert(settings.end(), asked.begin(), asked.end());
  auto checked = check(settings);
  if (!checked) return Error{checked.error()};
  return settings;
}

}  // namespace kvasir::eval
