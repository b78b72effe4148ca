#include "app/argument_view.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace kvasir::app {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// llama.cpp reads --ctx_size as --ctx-size.
std::string spelled(const std::string& arg) {
  std::string name = arg;
  if (name.starts_with("--")) std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::optional<Setting> from_environment(const FlagSpec& flag, const EnvLookup& env) {
  if (flag.env.empty()) return std::nullopt;
  if (!flag.negated.empty() && flag.env.starts_with("LLAMA_ARG_")) {
    const std::string negated = "LLAMA_ARG_NO_" + flag.env.substr(10);
    if (const auto value = env(negated)) return Setting{negated + "=" + *value, "0", -1, true};
  }
  const auto value = env(flag.env);
  if (!value) return std::nullopt;
  if (flag.n_values == 0 && flag.negated.empty() && !is_on(*value)) return std::nullopt;
  const std::string as_switch(is_off(*value) ? "0" : "1");
  return Setting{flag.env + "=" + *value, flag.n_values == 0 ? as_switch : *value, -1, true};
}

}  // namespace

EnvLookup process_env() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

bool is_off(std::string_view value) {
  return value == "off" || value == "disabled" || value == "false" || value == "0";
}

bool is_on(std::string_view value) {
  return value == "on" || value == "enabled" || value == "true" || value == "1";
}

std::optional<long long> to_number(std::string_view text) {
  long long number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

ArgumentView::ArgumentView(Command command, std::span<const std::string> args, const EnvLookup& env)
    : flags_(flags_of(command)), env_(env) {
  for (size_t i = 0; i < args.size(); ++i) {
    const FlagSpec* flag = spec(spelled(args[i]));
    if (flag == nullptr) {
      unknown_.push_back(args[i]);
      continue;
    }
    const bool negated = contains(flag->negated, spelled(args[i]));
    Setting setting{args[i], std::string(negated ? "0" : "1"), -1, false};
    if (flag->n_values > 0) {
      setting.value.clear();
      if (i + 1 < args.size()) {
        setting.value = args[i + 1];
        setting.shown += " " + args[i + 1];
        setting.index = static_cast<ptrdiff_t>(i + 1);
      }
      i += static_cast<size_t>(flag->n_values);
    }
    found_.push_back({flag, std::move(setting)});
  }
}

const FlagSpec* ArgumentView::spec(std::string_view name) const {
  for (const FlagSpec& flag : flags_) {
    if (contains(flag.names, name) || contains(flag.negated, name)) return &flag;
  }
  return nullptr;
}

std::vector<Setting> ArgumentView::all(std::string_view name) const {
  const FlagSpec* flag = spec(name);
  std::vector<Setting> settings;
  if (flag == nullptr) return settings;
  for (const Found& found : found_) {
    if (found.flag == flag) settings.push_back(found.setting);
  }
  if (settings.empty()) {
    if (auto setting = from_environment(*flag, env_)) settings.push_back(std::move(*setting));
  }
  return settings;
}

std::optional<Setting> ArgumentView::find(std::string_view name) const {
  std::vector<Setting> settings = all(name);
  if (settings.empty()) return std::nullopt;
  return std::move(settings.back());
}

bool ArgumentView::any(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return find(name).has_value(); });
}

}  // namespace kvasir::app
