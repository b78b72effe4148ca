#include "app/arguments.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace kvasir::app {
namespace {

constexpr std::string_view kDevice = "KVASIR0";

bool is_server(Command command) { return command == Command::kServe || command == Command::kChat; }

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Values of a flag; bench takes lists and repeated flags, everywhere else the last one counts.
std::vector<std::string> values(Command command, const ArgumentView& view, std::string_view name) {
  std::vector<std::string> found;
  if (command != Command::kBench) {
    if (const auto setting = view.find(name)) found.push_back(setting->value);
    return found;
  }
  for (const Setting& setting : view.all(name)) {
    for (std::string& part : split(setting.value, ',')) found.push_back(std::move(part));
  }
  return found;
}

// One value that `refused` holds for, as the user wrote it.
template <typename Predicate>
std::optional<std::string> first_refused(Command command, const ArgumentView& view,
                                         std::string_view name, Predicate refused) {
  const std::vector<std::string> all = values(command, view, name);
  if (std::none_of(all.begin(), all.end(), refused)) return std::nullopt;
  for (const Setting& setting : view.all(name)) {
    const std::vector<std::string> parts =
        command == Command::kBench ? split(setting.value, ',') : std::vector{setting.value};
    if (std::any_of(parts.begin(), parts.end(), refused)) return setting.shown;
  }
  return std::nullopt;
}

Result<void> check_row_types(Command command, const ArgumentView& view) {
  for (const std::string_view name : {"--cache-type-k", "--cache-type-v"}) {
    const auto refused =
        first_refused(command, view, name, [](const std::string& v) { return v != "f16"; });
    if (refused) {
      return Error{*refused +
                   ": rows reach the device as f16 only; use --kv-format to store "
                   "them in another format"};
    }
  }
  return {};
}

// A number of offloaded layers that leaves some to the CPU. The output layer counts as one more.
bool leaves_layers(const std::string& value, const std::optional<ModelInfo>& model) {
  const size_t end = value.find_first_of("-+*", value.starts_with('-') ? 1 : 0);
  const auto number = to_number(value.substr(0, end));
  if (!number || *number < 0) return false;
  return *number == 0 || (model && *number <= model->n_layers());
}

// With a policy, every layer's cache has to lie on the device.
Result<void> check_device(Command command, const ArgumentView& view, const CacheOptions& options,
                          const std::optional<ModelInfo>& model) {
  const std::string why =
      ": the device would not hold the cache, as " + options.mover() + " requires; ";
  if (const auto refused = first_refused(command, view, "--flash-attn", is_off)) {
    return Error{*refused + why + "leave flash attention at auto or on"};
  }
  const bool list = command == Command::kBench;  // there -nkvo takes a value
  const auto moved = first_refused(command, view, "--no-kv-offload", [&](const std::string& value) {
    return list ? !is_off(value) : is_off(value);
  });
  if (moved) return Error{*moved + why + "leave it out"};
  const auto layers = first_refused(command, view, "--n-gpu-layers", [&](const std::string& value) {
    return leaves_layers(value, model);
  });
  if (layers) return Error{*layers + why + "leave it out, or name more than all layers"};
  const auto device = first_refused(command, view, "--device",
                                    [](const std::string& value) { return value != kDevice; });
  if (device) return Error{*device + why + "leave it out, or give " + std::string(kDevice)};
  if (view.any({"--server-base"})) {
    return Error{"--server-base: the cache is the other server's; leave out " + options.mover()};
  }
  return {};
}

std::optional<long long> number_of(const ArgumentView& view, std::string_view name) {
  const auto setting = view.find(name);
  if (!setting) return std::nullopt;
  return to_number(setting->value);
}

// What a cache cannot honour whose rows are evicted or demoted: name of the flag, when it is
// refused, and why.
struct Refusal {
  enum class When { kOn, kNonZero, kNotOne, kNotPositive, kGiven };
  std::string_view name;
  When when;
  std::string_view why;
};

constexpr Refusal kWithMovedRows[] = {
    {"--context-shift", Refusal::When::kOn,
     "rows that were evicted or demoted cannot be shifted; leave it out"},
    {"--swa-full", Refusal::When::kOn,
     "sliding-window layers would be treated like full ones; leave it out"},
    {"--kv-unified", Refusal::When::kOn,
     "evicting and demoting need one cache for each sequence; leave it out"},
    {"--parallel", Refusal::When::kNotPositive,
     "auto shares one cache among all slots; give a number"},
    {"--cache-reuse", Refusal::When::kNonZero,
     "chunks of a cache with evicted or demoted tokens cannot be moved; leave it out"},
    {"--grp-attn-n", Refusal::When::kNotOne,
     "positions of a cache with evicted or demoted tokens cannot be regrouped; leave it out"},
};

// What would keep rows elsewhere, where the cap does not see them. llama-completion and the servers
// bring rows of saved sequences back into the cache.
constexpr Refusal kWithCap[] = {
    {"--cache-ram", Refusal::When::kNonZero,
     "the cap counts everything, and saved sequences lie outside; leave it out"},
    {"--ctx-checkpoints", Refusal::When::kNonZero,
     "the cap counts everything, and checkpoints lie outside; leave it out"},
    {"--slot-save-path", Refusal::When::kGiven,
     "the cap counts everything, and restoring a sequence would go past it; leave it out"},
    {"--prompt-cache", Refusal::When::kGiven,
     "the cap counts everything, and restoring a sequence would go past it; leave it out"},
};

bool applies(const Refusal& refusal, const Setting& setting) {
  const auto number = to_number(setting.value);
  switch (refusal.when) {
    case Refusal::When::kOn:
      return setting.value != "0";
    case Refusal::When::kNonZero:
      return number != 0;
    case Refusal::When::kNotOne:
      return number != 1;
    case Refusal::When::kNotPositive:
      return number && *number <= 0;
    case Refusal::When::kGiven:
      return true;
  }
  return false;
}

Result<void> check_moved_rows(Command command, const ArgumentView& view,
                              const CacheOptions& options) {
  if (command == Command::kPerplexity) {
    return Error{"perplexity with " + options.mover() +
                 ": it scores whole chunks, in which nothing is evicted or demoted; `kvasir eval "
                 "fidelity` measures what that costs"};
  }
  for (const Refusal& refusal : kWithMovedRows) {
    const auto setting = view.find(refusal.name);
    if (setting && applies(refusal, *setting)) {
      return Error{setting->shown + " with " + options.mover() + ": " + std::string(refusal.why)};
    }
  }
  return {};
}

Result<void> check_cap_alone(const ArgumentView& view, const CacheOptions& options) {
  if (options.budget_mb == 0) return {};
  for (const Refusal& refusal : kWithCap) {
    const auto setting = view.find(refusal.name);
    if (setting && applies(refusal, *setting)) {
      std::string message = setting->shown + " with --kv-budget-mb ";
      message += std::to_string(options.budget_mb);
      message += ": ";
      message += refusal.why;
      return Error{message};
    }
  }
  return {};
}

// A mistyped flag of ours. llama.cpp's own --kv-unified and --kv-offload are known to the view.
Result<void> check_names(const ArgumentView& view) {
  for (const std::string& arg : view.unknown()) {
    if (!arg.starts_with("--kv-")) continue;
    std::string names;
    for (const FlagHelp& help : flag_help()) {
      if (!names.empty()) names += ", ";
      names += help.name;
    }
    std::string message = arg;
    message += ": no such flag; allowed are ";
    message += names;
    return Error{message};
  }
  return {};
}

Result<void> check(Command command, const ArgumentView& view, const CacheOptions& options,
                   const std::optional<ModelInfo>& model) {
  if (auto names = check_names(view); !names) return names;
  if (auto types = check_row_types(command, view); !types) return types;
  if (options.moves_rows()) {
    if (auto device = check_device(command, view, options, model); !device) return device;
  }
  if (auto alone = check_cap_alone(view, options); !alone) return alone;
  if (options.moves_rows()) return check_moved_rows(command, view, options);
  return {};
}

// The list under construction beside the view of what the user gave.
struct Completion {
  Command command;
  std::vector<std::string>& args;
  const ArgumentView& view;
  const CacheOptions& options;
  const std::optional<ModelInfo>& model;

  bool knows(std::string_view name) const {
    const std::vector<FlagSpec>& flags = flags_of(command);
    return std::any_of(flags.begin(), flags.end(), [&](const FlagSpec& flag) {
      return std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end();
    });
  }

  // Adds `name value` if the front end has the flag and nobody set it.
  void add(const std::string& name, const std::string& value) {
    if (!knows(name) || view.any({name})) return;
    args.push_back(name);
    args.push_back(value);
  }
};

int64_t n_sequences(const Completion& c) {
  const int64_t fallback = c.command == Command::kServe ? kServeSlots : 1;
  const auto given = number_of(c.view, "--parallel");
  return given && *given > 0 ? *given : fallback;
}

void add_slots(Completion& c) {
  if (c.command == Command::kServe) {
    c.add("--parallel", std::to_string(kServeSlots));
    if (!c.view.any({"--kv-unified"})) c.args.emplace_back("--no-kv-unified");
  }
  if (is_server(c.command) && c.options.budget_mb > 0) {
    c.add("--cache-ram", "0");
    c.add("--ctx-checkpoints", "0");
  }
  // The encoder of a multimodal model has nothing to gain from a device that holds a cache.
  if (is_server(c.command) && !c.view.any({"--mmproj-offload", "--mmproj-device"})) {
    c.args.emplace_back("--no-mmproj-offload");
  }
}

// llama-server stops a slot at the trained context whatever -c says.
void lift_trained_context(Completion& c, int64_t per_sequence) {
  const std::string key = c.model->architecture + ".context_length=";
  const std::string item = key + "int:" + std::to_string(per_sequence);
  const auto given = c.view.find("--override-kv");
  if (given && given->value.find(key) != std::string::npos) return;
  if (given && given->index >= 0) {
    c.args[static_cast<size_t>(given->index)] += "," + item;
  } else {
    c.args.insert(c.args.end(), {"--override-kv", item});
  }
  if (c.model->yarn_orig_ctx > 0) {
    c.add("--yarn-orig-ctx", std::to_string(c.model->yarn_orig_ctx));
  }
}

// Cells are address space: rows are allocated for live tokens only. So an evicting policy with
// --kv-positions cache gets many, and one with original positions gets the trained context, where
// generation stops with `length`.
void add_cells(Completion& c) {
  if (!c.options.evicts() || c.command == Command::kBench) return;
  c.add("--fit", "off");  // it would count cells as memory and move layers off the device
  const int64_t sequences = n_sequences(c);
  const int64_t trained = c.model ? c.model->context_length : 0;
  const bool endless =
      c.options.position_mode() == PositionMode::kCache && !(c.model && c.model->learned_positions);
  int64_t per_sequence = endless ? std::max(kEndlessCells, trained) : trained;
  const auto given = number_of(c.view, "--ctx-size");
  if (const auto per_slot = number_of(c.view, "--kv-unified-per-slot"); per_slot && !given) {
    per_sequence = *per_slot;
  } else if (given && *given != 0) {
    per_sequence = *given / sequences;
  } else if (given && trained > 0) {
    per_sequence = trained;  // 0: the model's own, for each sequence
    const std::string total = std::to_string(trained * sequences);
    const auto setting = c.view.find("--ctx-size");
    if (setting->index >= 0) {
      c.args[static_cast<size_t>(setting->index)] = total;
    } else {
      c.args.insert(c.args.end(), {"--ctx-size", total});
    }
  } else if (endless || (sequences > 1 && trained > 0)) {
    c.add("--ctx-size", std::to_string(per_sequence * sequences));
  }
  if (endless && is_server(c.command) && c.model && per_sequence > trained) {
    lift_trained_context(c, per_sequence);
  }
}

// Flags like --gpt-oss-20b-default name a repository by themselves.
bool names_model(const std::vector<FlagSpec>& flags, const std::vector<std::string>& args) {
  return std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    const bool preset = (arg.ends_with("-default") && arg != "--spec-default") ||
                        (arg.starts_with("--fim-") && arg.ends_with("-spec"));
    return preset && std::any_of(flags.begin(), flags.end(), [&](const FlagSpec& flag) {
             return flag.n_values == 0 && flag.names.front() == arg;
           });
  });
}

}  // namespace

bool asks_for_text(Command command, const std::vector<std::string>& args, const EnvLookup& env) {
  const ArgumentView view(command, args, env);
  return view.any({"--help", "--version", "--list-devices", "--cache-list", "--completion-bash"});
}

ModelSource model_source(Command command, const std::vector<std::string>& args,
                         const EnvLookup& env) {
  const ArgumentView view(command, args, env);
  ModelSource source;
  source.remote = view.any({"--hf-repo", "--model-url", "--docker-repo", "--models-dir",
                            "--models-preset", "--server-base"}) ||
                  names_model(flags_of(command), args);
  if (!source.remote) source.paths = values(command, view, "--model");
  return source;
}

Result<std::vector<std::string>> prepare_arguments(Command command, std::vector<std::string> args,
                                                   const EnvLookup& env,
                                                   const CacheOptions& options,
                                                   const std::optional<ModelInfo>& model) {
  if (command == Command::kQuantize) return args;
  const std::vector<std::string> given = args;
  const ArgumentView view(command, given, env);
  if (auto checked = check(command, view, options, model); !checked) return Error{checked.error()};
  Completion completion{command, args, view, options, model};
  if (!view.any({"--server-base"})) completion.add("--device", std::string(kDevice));
  add_slots(completion);
  add_cells(completion);
  return args;
}

}  // namespace kvasir::app
