#include "app/doctor.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "app/arguments.h"
#include "app/cost.h"
#include "app/front_ends.h"
#include "app/help.h"
#include "app/models.h"
#include "app/preset_table.h"
#include "kernels/kernels.h"

namespace kvasir::app {
namespace {

constexpr std::array<int64_t, 3> kLengths = {4096, 32768, 131072};
constexpr double kMiB = 1024.0 * 1024.0;

int refuse(const std::string& message) {
  std::fprintf(stderr, "kvasir: %s\n", message.c_str());
  return 2;
}

std::string mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(bytes) / kMiB);
  return text;
}

// "Name       text", continued under the text.
void print_entry(const char* name, const std::string& text) {
  std::string lines = wrap(text, 11);
  const std::string label(name);
  if (lines.size() > label.size()) lines.replace(0, label.size(), label);
  std::fputs(lines.c_str(), stdout);
}

// What matters to the kernels, of what the system says this CPU has.
std::string cpu_features() {
  constexpr std::array kShown = {"sse4_2",   "avx2",        "fma",         "f16c",    "avx512f",
                                 "avx512bw", "avx512_vnni", "avx512_bf16", "asimd",   "asimdhp",
                                 "asimddp",  "bf16",        "i8mm",        "avx_vnni"};
  std::ifstream file("/proc/cpuinfo");
  std::string features;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (std::find(kShown.begin(), kShown.end(), word) == kShown.end()) continue;
      if (!features.empty()) features += " ";
      features += word;
    }
    break;
  }
  return features.empty() ? "features not known" : features;
}

std::string kernels_text(const KvKernels& in_use, const EnvLookup& env) {
  std::string text = std::string(in_use.name) + " in use";
  if (env("KVASIR_ISA")) text += ", as KVASIR_ISA says";
  text += "; this CPU runs ";
  for (const KvKernels* table : supported_kernels()) {
    text += std::string(table->name) + (table == supported_kernels().back() ? "" : ", ");
  }
  return text;
}

// "3", or "1 to 8" where layers differ. Layers without rows are left out.
template <typename Get>
std::string over_layers(const ModelInfo& model, Get get) {
  int64_t low = INT64_MAX;
  int64_t high = 0;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.n_kv_heads == 0) continue;
    low = std::min<int64_t>(low, get(layer));
    high = std::max<int64_t>(high, get(layer));
  }
  if (high == 0) return "0";
  if (low == high) return std::to_string(low);
  return std::to_string(low) + " to " + std::to_string(high);
}

std::string windows_text(const ModelInfo& model) {
  if (!model.windows_known) return "sliding-window layers not known from the file";
  int64_t n = 0;
  int32_t window = 0;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.window == 0) continue;
    ++n;
    window = layer.window;
  }
  if (n == 0) return "no sliding window";
  return std::to_string(n) + " with a sliding window of " + std::to_string(window) + " tokens";
}

void print_model(const std::string& path, const ModelInfo& model) {
  char size[32];
  std::snprintf(size, sizeof(size), "%.1f MB", static_cast<double>(model.file_bytes) / 1e6);
  print_entry("Model", (model.name.empty() ? path : model.name + ", " + path) + ", " + size);
  print_entry("Layers", model.architecture + ": " + std::to_string(model.n_layers()) + ", " +
                            std::to_string(model.n_kv_layers()) + " with K/V rows, " +
                            windows_text(model));
  print_entry("Heads", over_layers(model, [](const LayerGeometry& l) { return l.n_heads; }) +
                           " for queries, " +
                           over_layers(model, [](const LayerGeometry& l) { return l.n_kv_heads; }) +
                           " for K/V; dims of a head: K " +
                           over_layers(model, [](const LayerGeometry& l) { return l.head_dim_k; }) +
                           ", V " +
                           over_layers(model, [](const LayerGeometry& l) { return l.head_dim_v; }));
  print_entry("Context",
              "trained for " + std::to_string(model.context_length) + " tokens" +
                  (model.yarn_orig_ctx > 0 ? ", YaRN over " + std::to_string(model.yarn_orig_ctx)
                                           : std::string()) +
                  (model.learned_positions ? ", learned positions" : ""));
  int64_t bytes = 0;
  for (const LayerGeometry& layer : model.layers) bytes += layer.f16_bytes_per_token();
  print_entry(
      "K/V rows",
      model.latent
          ? "latent rows (MLA): llama.cpp keeps them, the device does not"
          : std::to_string(bytes) + " bytes per token in f16, " +
                over_layers(model, [](const LayerGeometry& l) { return l.f16_bytes_per_token(); }) +
                " in a layer");
}

void print_costs(const std::vector<Cost>& costs, const CacheOptions& options) {
  const bool exact = options.prefill == PrefillMode::kExact;
  constexpr const char* kRow = "%8s  %21s  %14s  %15s  %17s\n";
  std::printf("\n");
  std::printf(kRow, "tokens", "live tokens per layer", "full f16, MiB", "these flags, MiB",
              exact ? "exact prefill, MiB" : "prefill, MiB");
  for (const Cost& cost : costs) {
    std::string live = std::to_string(cost.live_sure);
    if (cost.live_unsure != cost.live_sure) live += " to " + std::to_string(cost.live_unsure);
    std::printf(kRow, std::to_string(cost.tokens).c_str(), live.c_str(),
                mebibytes(cost.full_bytes).c_str(), mebibytes(cost.steady_bytes).c_str(),
                mebibytes(cost.peak_bytes).c_str());
  }
  std::fputs(
      wrap("Rows of one sequence, without metadata and workspace; live tokens are fewest when "
           "the model is sure. The last column is the peak while a prompt of that length is "
           "read. Sliding-window layers hold their window and are not in the token counts.",
           0)
          .c_str(),
      stdout);
}

// What --kv-budget-mb gives, for one sequence and for as many as `kvasir serve` has.
Result<void> print_cap(const ModelInfo& model, const CacheOptions& options) {
  constexpr int32_t kUbatch = 512;  // llama.cpp's default
  const auto n_threads = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  std::string text = std::to_string(options.budget_mb) + " MiB: ";
  for (const int64_t n : {int64_t{1}, kServeSlots}) {
    const auto n_streams = static_cast<int32_t>(n);
    const auto cost = cap_cost(model, options, n_streams, kUbatch, n_threads);
    if (!cost) return Error{cost.error()};
    if (n > 1) text.append("; ");
    text.append("-np ").append(std::to_string(n)).append(": ");
    if (cost.value().tokens > 0) {
      text.append(std::to_string(cost.value().tokens)).append(" tokens per layer");
      if (n > 1) text.append(" for each sequence");
      text.append(", at least ").append(std::to_string(cost.value().least_mib)).append(" MiB");
    } else {
      text.append("too small, at least ").append(std::to_string(cost.value().least_mib));
      text.append(" MiB");
    }
    text.append(" with -ub ").append(std::to_string(kUbatch));
  }
  print_entry("Cap", text);
  return {};
}

// Takes -m MODEL out of the list and gives the default without it.
Result<std::string> take_model(std::vector<std::string>& args) {
  std::string model(kDefaultModel);
  for (size_t i = 0; i < args.size();) {
    if (args[i] != "-m" && args[i] != "--model") {
      ++i;
      continue;
    }
    if (i + 1 == args.size()) return Error{args[i] + " needs a value, found the end of the line"};
    model = args[i + 1];
    const auto at = args.begin() + static_cast<ptrdiff_t>(i);
    args.erase(at, at + 2);
  }
  return model;
}

}  // namespace

int doctor_command(std::vector<std::string> args, const EnvLookup& env) {
  if (std::find(args.begin(), args.end(), "--help") != args.end()) {
    std::fputs(doctor_help().c_str(), stdout);
    return 0;
  }
  const Result<CacheOptions> options = read_options(args, env);
  if (!options) return refuse(options.error());
  if (auto valid = validate(options.value()); !valid) return refuse(valid.error());
  const Result<std::string> name = take_model(args);
  if (!name) return refuse(name.error());
  if (!args.empty()) {
    return refuse("doctor: " + args.front() + " is unknown; allowed are -m MODEL and --kv-* flags");
  }
  const Result<const KvKernels*> kernels = chosen_kernels(env);
  if (!kernels) return refuse(kernels.error());
  const Result<std::string> path = resolve_model(name.value(), env);
  if (!path) return refuse(path.error());
  const Result<ModelInfo> model = read_model(path.value());
  if (!model) return refuse(model.error());
  const auto table = costs(model.value(), options.value(), kLengths);
  if (!table) return refuse(table.error());

  print_entry("CPU", cpu_features() + "; " + std::to_string(std::thread::hardware_concurrency()) +
                         " threads");
  print_entry("Kernels", kernels_text(*kernels.value(), env));
  print_model(path.value(), model.value());
  print_entry("Flags", describe(options.value()));
  if (model.value().latent) return 0;
  if (options.value().budget_mb > 0) {
    if (auto shown = print_cap(model.value(), options.value()); !shown) {
      return refuse(shown.error());
    }
  }
  print_costs(table.value(), options.value());
  const auto known = preset_table(model.value());
  if (!known) return refuse(known.error());
  std::printf("\n%s", known.value().c_str());
  return 0;
}

}  // namespace kvasir::app
