#include "app/front_ends.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "app/arguments.h"
#include "app/calibration_file.h"
#include "app/exit_hook.h"
#include "app/help.h"
#include "app/models.h"
#include "device/device.h"

// The front ends' entry points; llama.cpp declares them where it calls them, in no header.
int llama_completion(int argc, char** argv);
int llama_cli(int argc, char** argv);
int llama_server(int argc, char** argv);
int llama_bench(int argc, char** argv);
int llama_perplexity(int argc, char** argv);
int llama_quantize(int argc, char** argv);

namespace kvasir::app {
namespace {

using EntryPoint = int (*)(int, char**);

EntryPoint entry_point(Command command) {
  switch (command) {
    case Command::kRun:
      return llama_completion;
    case Command::kChat:
      return llama_cli;
    case Command::kServe:
      return llama_server;
    case Command::kBench:
      return llama_bench;
    case Command::kPerplexity:
      return llama_perplexity;
    case Command::kQuantize:
      return llama_quantize;
  }
  return nullptr;
}

int refuse(const std::string& message) {
  std::fprintf(stderr, "kvasir: %s\n", message.c_str());
  return 2;
}

int call(const FrontEnd& entry, std::vector<std::string> args) {
  args.insert(args.begin(), "kvasir " + std::string(entry.name));
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const int code = entry_point(entry.command)(static_cast<int>(args.size()), argv.data());
  return code == 0 ? 0 : 1;
}

// Names in one -m value (a list in bench) replaced by paths.
Result<std::string> resolve_value(Command command, const std::string& value, const EnvLookup& env) {
  if (command != Command::kBench) return resolve_model(value, env);
  std::string resolved;
  std::istringstream list(value);
  for (std::string name; std::getline(list, name, ',');) {
    Result<std::string> path = resolve_model(name, env);
    if (!path) return path;
    resolved += (resolved.empty() ? "" : ",") + path.value();
  }
  return resolved;
}

// Makes `args` name the model by path: the default where none is given, names resolved.
Result<void> place_model(Command command, std::vector<std::string>& args, const EnvLookup& env) {
  const std::vector<std::string> given = args;
  const ArgumentView view(command, given, env);
  std::vector<Setting> settings = view.all("--model");
  if (settings.empty()) {
    // llama-bench reads no environment; a model set there for everything else counts all the same.
    const std::string name = env("LLAMA_ARG_MODEL").value_or(std::string(kDefaultModel));
    settings.push_back({name, name, -1, true});
    args.insert(args.end(), {"--model", name});
    settings.back().index = static_cast<ptrdiff_t>(args.size()) - 1;
  }
  for (const Setting& setting : settings) {
    const Result<std::string> path = resolve_value(command, setting.value, env);
    if (!path) return Error{path.error()};
    if (setting.index >= 0) {
      args[static_cast<size_t>(setting.index)] = path.value();
    } else if (path.value() != setting.value) {
      args.insert(args.end(), {"--model", path.value()});
    }
  }
  return {};
}

// Metadata of the local model, of the one with most layers if bench is given several.
Result<std::optional<ModelInfo>> inspect_model(Command command,
                                               const std::vector<std::string>& args,
                                               const EnvLookup& env) {
  std::optional<ModelInfo> largest;
  for (const std::string& path : model_source(command, args, env).paths) {
    Result<ModelInfo> info = read_model(path);
    if (!info) return Error{info.error()};
    if (!largest || info.value().n_layers() > largest->n_layers()) largest = info.value();
  }
  return largest;
}

// Full layers from the file beside the model, where they are not given.
Result<void> use_calibration(Command command, const std::vector<std::string>& args,
                             const EnvLookup& env, const ModelInfo& model, CacheOptions& options) {
  const auto note = take_calibration(model_source(command, args, env).paths, model, options);
  if (!note) return Error{note.error()};
  if (!note.value().empty()) std::fprintf(stderr, "kvasir: %s\n", note.value().c_str());
  return {};
}

// A plug-in that is named for stock programs would register the same device twice here.
void forget_plug_in() {
  const char* path = std::getenv("GGML_BACKEND_PATH");
  if (path == nullptr) return;
  const std::string file = std::string(path).substr(std::string(path).rfind('/') + 1);
  if (file.starts_with("libggml-kvasir")) unsetenv("GGML_BACKEND_PATH");
}

// llama-server starts a process for each model where it is given several: let them be this
// program, with the same flags.
void prepare_children(const FrontEnd& entry, const CacheOptions& options) {
  if (entry.command != Command::kServe) return;
  setenv("LLAMA_APP_CMD", std::string(entry.name).c_str(), 1);
  setenv("KVASIR_FLAGS", describe(options).c_str(), 1);
}

int answer_text_request(const FrontEnd& entry, const std::vector<std::string>& args,
                        const EnvLookup& env) {
  if (ArgumentView(entry.command, args, env).any({"--help"})) {
    std::fputs(front_end_help(entry).c_str(), stdout);
    std::fflush(stdout);
  }
  device::register_device();
  return call(entry, args);
}

}  // namespace

Result<CacheOptions> read_options(std::vector<std::string>& args, const EnvLookup& env) {
  CacheOptions options;
  if (const auto flags = env("KVASIR_FLAGS")) {
    Result<std::vector<std::string>> words = split_flags(*flags);
    if (!words) return Error{"KVASIR_FLAGS: " + words.error()};
    if (auto taken = take_flags(words.value(), options); !taken) {
      return Error{"KVASIR_FLAGS: " + taken.error()};
    }
    if (!words.value().empty()) {
      return Error{"KVASIR_FLAGS: " + words.value().front() + " is none of the --kv-* flags"};
    }
  }
  if (auto taken = take_flags(args, options); !taken) return Error{taken.error()};
  return options;
}

Result<const KvKernels*> chosen_kernels(const EnvLookup& env) {
  const auto name = env("KVASIR_ISA");
  if (!name || name->empty()) return &best_kernels();
  if (const KvKernels* table = find_kernels(*name)) return table;
  std::string known;
  for (const KvKernels* table : supported_kernels()) {
    known += (known.empty() ? "" : ", ") + std::string(table->name);
  }
  return Error{"KVASIR_ISA=" + *name + ": no kernels of that name on this CPU; allowed are " +
               known};
}

int print_llama_help(const FrontEnd& entry) {
  std::fflush(stdout);
  return call(entry, {"--help"});
}

int run_front_end(const FrontEnd& entry, std::vector<std::string> args) {
  const EnvLookup env = process_env();
  if (entry.command == Command::kQuantize) {
    const size_t before = args.size();
    CacheOptions unused;
    if (auto taken = take_flags(args, unused); !taken) return refuse(taken.error());
    if (args.size() != before) return refuse("quantize has no cache: it takes no --kv-* flag");
    if (asks_for_text(entry.command, args, env)) return answer_text_request(entry, args, env);
    return call(entry, std::move(args));
  }
  forget_plug_in();
  Result<CacheOptions> options = read_options(args, env);
  if (!options) return refuse(options.error());
  if (asks_for_text(entry.command, args, env)) return answer_text_request(entry, args, env);
  if (auto valid = validate(options.value()); !valid) return refuse(valid.error());

  if (const auto kernels = chosen_kernels(env); !kernels) return refuse(kernels.error());

  std::optional<ModelInfo> model;
  if (!model_source(entry.command, args, env).remote) {
    if (auto placed = place_model(entry.command, args, env); !placed) return refuse(placed.error());
    Result<std::optional<ModelInfo>> info = inspect_model(entry.command, args, env);
    if (!info) return refuse(info.error());
    model = std::move(info.value());
    if (model) {
      auto used = use_calibration(entry.command, args, env, *model, options.value());
      if (!used) return refuse(used.error());
    }
  }
  auto prepared = prepare_arguments(entry.command, std::move(args), env, options.value(), model);
  if (!prepared) return refuse(prepared.error());

  if (auto set = device::set_options(options.value()); !set) return refuse(set.error());
  device::register_device();
  print_stats_at_exit();
  prepare_children(entry, options.value());
  const int code = call(entry, std::move(prepared.value()));
  device::print_stats();
  return code;
}

}  // namespace kvasir::app
