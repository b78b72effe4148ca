#include "eval/measure.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "cache/options.h"
#include "device/device.h"
#include "eval/machine.h"
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
  app.add_option(
         "-r,--repetitions", flags.plan.repetitions,
         "pairs of each kind and depth, in two rounds: an odd number becomes the next even one")
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

// The pairs of one round. Where memory comes to lie when a session is opened shifts its speed by a
// few per cent for as long as it lives, in favour of the later one; so rounds take turns in that
// too.
Result<std::vector<PairedSamples>> run_round(const std::string& path, const MeasureFlags& flags,
                                             const PairedPlan& plan, bool stock_first,
                                             const OnProgress& progress, int64_t& peak_bytes) {
  const auto device = flags.control ? nullptr : device::register_device();
  auto first = open_side(path, stock_first ? nullptr : device, flags);
  if (!first) return Error{first.error()};
  auto second = open_side(path, stock_first ? device : nullptr, flags);
  if (!second) return Error{second.error()};
  Session& stock = stock_first ? first.value() : second.value();
  Session& kvasir = stock_first ? second.value() : first.value();
  auto samples = run_paired(stock, kvasir, plan, progress);
  kvasir_stats stats{};  // of live caches, so before the sessions end
  if (kvasir_get_stats(&stats) == 1) peak_bytes = std::max(peak_bytes, stats.peak_bytes);
  return samples;
}

// Both rounds, half of the pairs in each.
Result<std::vector<PairedSamples>> run_rounds(const std::string& path, const MeasureFlags& flags,
                                              int64_t& peak_bytes) {
  PairedPlan plan = flags.plan;
  plan.repetitions = (flags.plan.repetitions + 1) / 2;
  Progress progress(2 * plan_units(plan));
  const OnProgress advance = [&](double units, const std::string& next) {
    progress.advance(units, next);
  };
  std::vector<PairedSamples> all;
  for (const bool stock_first : {true, false}) {
    auto round = run_round(path, flags, plan, stock_first, advance, peak_bytes);
    if (!round) return round;
    append_samples(all, round.value());
  }
  return all;
}

PairedSetup describe(const std::string& path, const MeasureFlags& flags,
                     const std::string& kv_flags) {
  PairedSetup setup;
  setup.model = flags.model;
  setup.cpu = cpu_name();
  setup.b = flags.control ? "stock again" : "kvasir";
  setup.b_flags = kv_flags;
  setup.n_threads = flags.n_threads;
  setup.n_ubatch = flags.n_ubatch;
  auto model = load_model(path, nullptr);
  if (!model) return setup;
  char description[256] = "";
  llama_model_desc(model.value().get(), description, sizeof(description));
  setup.description = description;
  return setup;
}

int measure(const MeasureFlags& flags, const std::string& kv_flags) {
  auto path = find_model(flags.model);
  if (!path) return complain(path.error(), kUsage);
  PairedSetup setup = describe(path.value(), flags, kv_flags);
  auto samples = run_rounds(path.value(), flags, setup.b_peak_bytes);
  if (!samples) return complain(samples.error(), kFailed);

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
  flags.plan.refill = options.moves_rows();
  auto set = device::set_options(options);
  if (!set) return complain(set.error(), kUsage);
  set_llama_log(flags.verbose);
  return measure(flags, taken(given, args));
}
