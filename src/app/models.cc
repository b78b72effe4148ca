#include "app/models.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace kvasir::app {
namespace {

namespace fs = std::filesystem;

constexpr std::array kModels = {
    NamedModel{"smollm2", "SmolLM2-135M-Instruct, Q4_1 as published (the default)"},
    NamedModel{"smollm2-q4_0", "SmolLM2-135M-Instruct, Q4_0: for speed"},
    NamedModel{"smollm2-q4_0-pure", "SmolLM2-135M-Instruct, every matrix Q4_0: for a test"},
    NamedModel{"smollm2-f16", "SmolLM2-135M-Instruct, F16: for fidelity"},
    NamedModel{"gemma3", "Gemma 3 270M, Q4_K_M as published"},
    NamedModel{"gemma3-f16", "Gemma 3 270M, F16: for fidelity"},
};

bool is_named(std::string_view name) {
  return std::any_of(kModels.begin(), kModels.end(),
                     [&](const NamedModel& model) { return model.name == name; });
}

std::string all_names() {
  std::string names;
  for (const NamedModel& model : kModels) {
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return names;
}

int refuse(const std::string& message) {
  std::fprintf(stderr, "kvasir: %s\n", message.c_str());
  return 2;
}

int list_models(const EnvLookup& env) {
  for (const NamedModel& model : kModels) {
    const Result<std::string> path = named_model_path(model.name, env);
    if (!path) return refuse(path.error());
    std::error_code error;
    const auto bytes = fs::file_size(path.value(), error);
    const std::string size = error ? "absent" : std::to_string(bytes / 1000000) + " MB";
    std::printf("%-18.*s %8s  %.*s\n", static_cast<int>(model.name.size()), model.name.data(),
                size.c_str(), static_cast<int>(model.text.size()), model.text.data());
  }
  return 0;
}

// The script in the tree that this program was built in; first where the program lies now.
std::string pull_script() {
  constexpr const char* kScript = "tools/setup/models.sh";
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path near = program.parent_path() / "../.." / kScript;
    if (fs::exists(near, error)) return near.lexically_normal();
  }
  return fs::path(KVASIR_ROOT) / kScript;
}

int pull_model(const std::string& name) {
  const std::string script = pull_script();
  execl("/bin/bash", "bash", script.c_str(), "pull", name.c_str(), nullptr);
  std::fprintf(stderr, "kvasir: cannot run %s with /bin/bash: %s\n", script.c_str(),
               std::strerror(errno));
  return 1;
}

}  // namespace

std::span<const NamedModel> named_models() { return kModels; }

Result<std::string> named_model_path(std::string_view name, const EnvLookup& env) {
  assert(is_named(name));
  const std::string file = std::string(name) + ".gguf";
  if (const auto cache = env("KVASIR_CACHE_DIR"); cache && !cache->empty()) {
    return (fs::path(*cache) / "models" / file).string();
  }
  if (const auto home = env("HOME"); home && !home->empty()) {
    return (fs::path(*home) / ".cache/kvasir/models" / file).string();
  }
  return Error{"model " + std::string(name) +
               ": neither KVASIR_CACHE_DIR nor HOME is set, one of them says where models lie"};
}

Result<std::string> resolve_model(const std::string& name_or_path, const EnvLookup& env) {
  std::error_code error;
  if (!is_named(name_or_path)) {
    const bool is_bare = name_or_path.find_first_of("/.") == std::string::npos;
    if (is_bare && !fs::exists(name_or_path, error)) {
      return Error{"model " + name_or_path +
                   ": no such file, and no model of that name; known are " + all_names()};
    }
    return name_or_path;
  }
  Result<std::string> path = named_model_path(name_or_path, env);
  if (!path) return path;
  if (!fs::exists(path.value(), error)) {
    return Error{"model " + name_or_path + ": not in " +
                 fs::path(path.value()).parent_path().string() +
                 "; get it with `kvasir model pull " + name_or_path + "`"};
  }
  return path;
}

int model_command(const std::vector<std::string>& args, const EnvLookup& env) {
  const std::string verb = args.empty() ? "" : args[0];
  if (verb == "list" && args.size() == 1) return list_models(env);
  if ((verb != "path" && verb != "pull") || args.size() != 2) {
    return refuse("model: expected list, path NAME or pull NAME");
  }
  const std::string& name = args[1];
  const bool all = verb == "pull" && name == "all";
  if (!all && !is_named(name)) {
    return refuse("model " + name + ": no model of that name; known are " + all_names());
  }
  if (verb == "pull") return pull_model(name);
  const Result<std::string> path = resolve_model(name, env);
  if (!path) return refuse(path.error());
  std::printf("%s\n", path.value().c_str());
  return 0;
}

}  // namespace kvasir::app
