#include "eval/measure.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "cache/options.h"
#include "device/device.h"
#include "eval/paired.h"
#include "eval/paired_report.h"
#include "eval/progress.h"
#include "eval/session.h"
#include "eval/text.h"
#include "kvasir/kvasir.h"

namespace kvasir::eval {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct MeasureFlags {
  std::string model = "smollm2";
  PairedPlan plan{.depths = {0, 2048, 4096, 7600}};
  int32_t n_threads = 2;
  int32_t n_ubatch = 512;
  std::string output = "md";
  std::string json_path;
  bool control = false;
  bool verbose = false;
};

void add_flags(CLI::App& app, MeasureFlags& flags) {
  const CLI::Range positive(1, 1 << 20);
  const CLI::Range natural(0, 1 << 24);
  app.add_option("-m,--model", flags.model, "GGUF file or name of a model")->capture_default_str();
  app.add_option("-p,--n-prompt", flags.plan.prefill, "tokens of a prompt chunk; 0: none")
      ->check(natural)
      ->capture_default_str();
  app.add_option("-n,--n-gen", flags.plan.decode, "tokens to generate; 0: none")
      ->check(natural)
      ->capture_default_str();
  app.add_option("-d,--n-depth", flags.plan.depths, "tokens already in the cache, a list")
      ->delimiter(',')
      ->check(natural)
      ->capture_default_str();
  app.add_option("-t,--threads", flags.n_threads)->check(positive)->capture_default_str();
  app.add_option("--ubatch-size,--ub", flags.n_ubatch, "-ub: tokens of one graph")
      ->check(positive)
      ->capture_default_str();
  app.add_option("-r,--repetitions", flags.plan.repetitions, "pairs of each kind and depth")
      ->check(positive)
      ->capture_default_str();
  app.add_option("-o,--output", flags.output, "md or json, to stdout")
      ->check(CLI::IsMember({"md", "json"}))
      ->capture_default_str();
  app.add_option("--json", flags.json_path, "write every sample to this file as well");
  app.add_flag("--control", flags.control, "stock against stock: the spread of the method itself");
  app.add_flag("-v,--verbose", flags.verbose, "llama.cpp's log");
}

std::string kv_help() {
  std::string text = "Flags of the Kvasir side (the stock side is always f16, everything kept):\n";
  for (const auto& flag : flag_help()) {
    text += "  " + std::string(flag.name) + " " + std::string(flag.value) + "  " +
            std::string(flag.text) + "\n";
  }
  return text;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// What take_flags() took, as one line: the words of `before` that are not in `after`, in order.
std::string taken(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  std::vector<std::string> words;
  size_t kept = 0;
  for (const auto& word : before) {
    if (kept < after.size() && word == after[kept]) {
      ++kept;
    } else {
      words.push_back(word);
    }
  }
  return join(words);
}

int complain(const std::string& message, int code) {
  fprintf(stderr, "kvasir measure: %s\n", message.c_str());
  return code;
}

Result<Session> open_side(const std::string& path, ggml_backend_dev_t device,
                          const MeasureFlags& flags) {
  auto model = load_model(path, device);
  if (!model) return Error{model.error()};
  SessionParams params;
  params.n_ctx = flags.plan.depths.back() + std::max(flags.plan.prefill, flags.plan.decode);
  params.n_ubatch = flags.n_ubatch;
  params.n_threads = flags.n_threads;
  return Session::open(model.value(), params);
}

int measure(const MeasureFlags& flags, const std::string& kv_flags) {
  auto path = find_model(flags.model);
  if (!path) return complain(path.error(), kUsage);
  auto stock = open_side(path.value(), nullptr, flags);
  if (!stock) return complain(stock.error(), kFailed);
  const auto device = flags.control ? nullptr : device::register_device();
  auto kvasir = open_side(path.value(), device, flags);
  if (!kvasir) return complain(kvasir.error(), kFailed);

  PairedSetup setup;
  char description[256] = "";
  llama_model_desc(llama_get_model(stock.value().context()), description, sizeof(description));
  setup.model = flags.model;
  setup.description = description;
  setup.cpu = cpu_name();
  setup.b = flags.control ? "stock again" : "kvasir";
  setup.b_flags = kv_flags;
  setup.n_threads = flags.n_threads;
  setup.n_ubatch = flags.n_ubatch;

  Result<std::vector<PairedSamples>> samples = std::vector<PairedSamples>{};
  {
    Progress progress(plan_units(flags.plan));
    samples =
        run_paired(stock.value(), kvasir.value(), flags.plan,
                   [&](double units, const std::string& next) { progress.advance(units, next); });
  }
  if (!samples) return complain(samples.error(), kFailed);

  kvasir_stats stats{};
  if (kvasir_get_stats(&stats) == 1) setup.b_peak_bytes = stats.peak_bytes;
  const std::string json = to_json(setup, samples.value());
  fputs((flags.output == "json" ? json : to_markdown(setup, samples.value())).c_str(), stdout);
  if (flags.json_path.empty()) return 0;
  std::ofstream file(flags.json_path);
  file << json;
  file.close();
  return file ? 0 : complain("cannot write " + flags.json_path, kFailed);
}

}  // namespace
}  // namespace kvasir::eval

int kvasir_measure(int argc, char** argv) {
  using namespace kvasir;
  using namespace kvasir::eval;
  std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> given = args;
  CacheOptions options;
  auto split = take_flags(args, options);
  if (!split) return complain(split.error(), kUsage);

  MeasureFlags flags;
  CLI::App app("Stock llama.cpp against Kvasir: speed in pairs, in one process", "kvasir measure");
  add_flags(app, flags);
  app.footer(kv_help());
  std::replace(args.begin(), args.end(), std::string("-ub"), std::string("--ub"));
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // as CLI11 takes them
    app.parse(reversed);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), kUsage);
  }
  auto& depths = flags.plan.depths;
  std::sort(depths.begin(), depths.end());
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  if (flags.plan.prefill == 0 && flags.plan.decode == 0) {
    return complain("-p 0 with -n 0 leaves nothing to measure", kUsage);
  }
  flags.plan.refill = options.evicts();
  auto set = device::set_options(options);
  if (!set) return complain(set.error(), kUsage);
  set_llama_log(flags.verbose);
  return measure(flags, taken(given, args));
}
