#include "app/calibrate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "app/calibration_file.h"
#include "app/model_file.h"
#include "app/models.h"
#include "cache/options.h"
#include "eval/calibrate/layer_choices.h"
#include "eval/progress.h"
#include "eval/session.h"
#include "eval/text.h"
#include "select/full_layer_choice.h"
#include "select/full_layers.h"

namespace kvasir::app {
namespace {

constexpr int32_t kLeastTokens = 256;  // the second half then has candidates at each point

struct Flags {
  std::string model{kDefaultModel};
  std::string text = "bible";
  int32_t layers = 0;  // 0: as many as the default rule
  int32_t tokens = 4096;
  int32_t points = 16;
  std::string keep = "30%";
  int32_t threads = 2;
  std::string out;
  bool force = false;
};

// The model that is calibrated, and what of it can be full.
struct Target {
  std::string path;
  ModelInfo info;
  std::vector<int32_t> layers;
  std::string out;
};

int complain(const std::string& message, int code) {
  std::fprintf(stderr, "kvasir: %s\n", message.c_str());
  return code;
}

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("-m,--model", flags.model, "GGUF file or name of a model")->capture_default_str();
  app.add_option("--text", flags.text, "bible, gpl, or a file")->capture_default_str();
  app.add_option("--layers", flags.layers, "full layers to choose; as many as by default if absent")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--tokens", flags.tokens, "tokens of the text that are read")
      ->check(CLI::Range(kLeastTokens, 1 << 24))
      ->capture_default_str();
  app.add_option("--points", flags.points, "decode steps that are looked at, in the second half")
      ->check(CLI::Range(1, kLeastTokens / 2))
      ->capture_default_str();
  app.add_option("--kv-keep", flags.keep, "candidates that a step reads: N, or P% of them")
      ->capture_default_str();
  app.add_option("-t,--threads", flags.threads)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--out", flags.out, "file to write; MODEL.kvasir.json if absent");
  app.add_flag("--force", flags.force, "replace a file that is there");
  app.footer(
      "Reads the text in exact f16 with every layer full and compares what each layer would\n"
      "choose. Front ends take the layers from MODEL.kvasir.json where --kv-select omnikv is\n"
      "given without --kv-full-layers.");
}

Result<Target> find_target(const Flags& flags, const EnvLookup& env) {
  const auto path = resolve_model(flags.model, env);
  if (!path) return Error{path.error()};
  auto info = read_model(path.value());
  if (!info) return Error{info.error()};
  if (!info.value().windows_known) {
    return Error{"model " + path.value() +
                 ": it has a sliding window, and which layers have it is not known"};
  }
  Target target{path.value(), std::move(info.value()), {}, flags.out};
  target.layers = selectable_layers(target.info);
  if (target.out.empty()) target.out = calibration_path(target.path);
  const auto n_layers = static_cast<int32_t>(target.layers.size());
  if (n_layers == 0) return Error{"model " + target.path + ": no layer reads more than a window"};
  if (flags.layers > n_layers) {
    return Error{"--layers " + std::to_string(flags.layers) + ": the cache has " +
                 std::to_string(n_layers) + " layers, allowed are 1 to " +
                 std::to_string(n_layers)};
  }
  const int32_t most = target.info.context_length;
  if (most > 0 && flags.tokens > most) {
    return Error{"--tokens " + std::to_string(flags.tokens) + ": the model was trained for " +
                 std::to_string(most) + ", allowed are " + std::to_string(kLeastTokens) + " to " +
                 std::to_string(most)};
  }
  if (auto ok = check_calibration_target(target.out, flags.force); !ok) return Error{ok.error()};
  return target;
}

Result<eval::ChoicePlan> make_plan(const Flags& flags, const Target& target, const Keep& keep,
                                   const llama_model* model) {
  auto tokens = eval::first_tokens(llama_model_get_vocab(model), flags.text, flags.tokens);
  if (!tokens) return Error{tokens.error()};
  return eval::ChoicePlan{std::move(tokens.value()), flags.points, target.layers, keep,
                          flags.threads};
}

void print_choice(const char* name, const FullLayers& full) {
  std::printf("%-12s %6.1f %%   %s\n", name, 100 * full.share, layer_list(full.layers).c_str());
}

int report(const Flags& flags, const Target& target, const LayerOverlap& overlap) {
  const int32_t n_layers = overlap.n_layers();
  const std::vector<int32_t> usual = usual_full_layers(n_layers);
  const auto n_full = flags.layers > 0 ? flags.layers : static_cast<int32_t>(usual.size());
  const FullLayers chosen = choose_full_layers(overlap, n_full);
  const std::string name = std::filesystem::path(target.path).filename().string();
  std::printf("%s, %d layers; %d steps in %d tokens of %s, %s of the candidates kept\n\n",
              name.c_str(), n_layers, flags.points, flags.tokens, flags.text.c_str(),
              flags.keep.c_str());
  std::printf("%-12s %8s   %s\n", "", "overlap", "full layers");
  print_choice("chosen", chosen);
  print_choice("default", rate_full_layers(overlap, usual));
  const Calibration calibration{
      name, target.info.file_bytes, chosen.layers, chosen.share, flags.text, flags.tokens};
  const auto written = write_calibration(target.out, calibration, flags.force);
  if (!written) return complain(written.error(), 1);
  std::printf("\nwritten to %s\n", target.out.c_str());
  return 0;
}

}  // namespace

int calibrate_command(const std::vector<std::string>& args, const EnvLookup& env) {
  Flags flags;
  CLI::App app("Chooses the full layers of --kv-select omnikv for a model", "kvasir calibrate");
  add_flags(app, flags);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // as CLI11 takes them
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), 2);
  }
  CacheOptions options;
  std::vector<std::string> keep = {"--kv-keep", flags.keep};
  if (auto taken = take_flags(keep, options); !taken) return complain(taken.error(), 2);
  const auto target = find_target(flags, env);
  if (!target) return complain(target.error(), 2);
  eval::set_llama_log(false);
  auto model = eval::load_model(target.value().path, nullptr);
  if (!model) return complain(model.error(), 2);
  const Keep kept = options.select_params.keep.value_or(Keep{});
  const auto plan = make_plan(flags, target.value(), kept, model.value().get());
  if (!plan) return complain(plan.error(), 2);
  const auto overlap = [&] {
    eval::Progress progress(flags.points);  // its line ends before anything is printed
    return eval::overlap_of_choices(model.value(), plan.value(),
                                    [&] { progress.advance(1, "reading " + flags.text); });
  }();
  if (!overlap) return complain(overlap.error(), 1);
  return report(flags, target.value(), overlap.value());
}

}  // namespace kvasir::app
