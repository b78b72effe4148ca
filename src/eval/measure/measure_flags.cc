#include "eval/measure/measure_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "kernels/kernels.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kMostSequences = 256;  // LLAMA_MAX_SEQ of llama.cpp

// Options that only one of the two kinds of measurement reads.
struct Groups {
  std::vector<CLI::Option*> paired, synthetic;
  CLI::Option* depths = nullptr;
  CLI::Option* prefill = nullptr;
  CLI::Option* batches = nullptr;
  int32_t capacity_mib = 0;
  std::vector<std::string> sets;
};

void add_common(CLI::App& app, MeasureFlags& flags, Groups& groups) {
  const CLI::Range positive(1, 1 << 20);
  const CLI::Range natural(0, 1 << 24);
  app.add_option("-n,--n-gen", flags.plan.decode,
                 "tokens to generate; 0: none. With --synthetic: timed steps at each depth")
      ->check(natural)
      ->capture_default_str();
  groups.depths = app.add_option("-d,--n-depth", flags.plan.depths,
                                 "tokens already in the cache, a list; with --synthetic 100000, "
                                 "500000, 1000000 unless given")
                      ->delimiter(',')
                      ->check(natural)
                      ->capture_default_str();
  app.add_option("-t,--threads", flags.n_threads)->check(positive)->capture_default_str();
  app.add_option("-o,--output", flags.output, "md or json, to stdout")
      ->check(CLI::IsMember({"md", "json"}))
      ->capture_default_str();
  app.add_option("--json", flags.json_path, "write every sample to this file as well");
}

void add_paired(CLI::App& app, MeasureFlags& flags, Groups& groups) {
  const CLI::Range positive(1, 1 << 20);
  groups.paired = {
      app.add_option("-m,--model", flags.model, "GGUF file or name of a model")
          ->capture_default_str(),
      groups.prefill = app.add_option("-p,--n-prompt", flags.plan.prefill,
                                      "tokens of a prompt chunk, of one sequence; 0: none")
                           ->check(CLI::Range(0, 1 << 24))
                           ->capture_default_str(),
      groups.batches =
          app.add_option("-b,--batch", flags.plan.batches,
                         "sequences that decode at once, a list: a token of each in every step")
              ->delimiter(',')
              ->check(CLI::Range(1, kMostSequences))
              ->capture_default_str(),
      app.add_option("--ubatch-size,--ub", flags.n_ubatch, "-ub: tokens of one graph")
          ->check(positive)
          ->capture_default_str(),
      app.add_option("-r,--repetitions", flags.plan.repetitions,
                     "pairs of each kind and depth, in two rounds: an odd number becomes the next "
                     "even one")
          ->check(positive)
          ->capture_default_str(),
      app.add_flag("--control", flags.control,
                   "stock against stock: the spread of the method itself"),
      app.add_flag("-v,--verbose", flags.verbose, "llama.cpp's log"),
  };
}

void add_synthetic(CLI::App& app, MeasureFlags& flags, Groups& groups) {
  SyntheticShape& shape = flags.synthetic.shape;
  CLI::Option* synthetic = app.add_flag("--synthetic", flags.is_synthetic,
                                        "no model: Kvasir's cache alone on made-up rows, the parts "
                                        "of a decode step timed apart");
  const CLI::Range heads(1, 1024);
  groups.synthetic = {
      app.add_option("--synthetic-layers", shape.n_layers, "layers")->check(heads),
      app.add_option("--synthetic-heads", shape.n_heads, "query heads")->check(heads),
      app.add_option("--synthetic-kv-heads", shape.n_kv_heads, "heads of K and V")->check(heads),
      app.add_option("--synthetic-head-dim", shape.head_dim, "channels of a head")
          ->check(CLI::Range(1, kMaxHeadDim)),
      app.add_option("--synthetic-seed", flags.synthetic.seed, "of rows and queries")
          ->check(CLI::Range(0, 1 << 30)),
  };
  for (CLI::Option* option : groups.synthetic) option->needs(synthetic)->capture_default_str();
  for (CLI::Option* option : groups.paired) option->excludes(synthetic);
}

void add_capacity(CLI::App& app, Groups& groups) {
  CLI::Option* capacity =
      app.add_option("--capacity", groups.capacity_mib,
                     "how many sequences of -d tokens (4096) fit into so many MiB without eviction "
                     "for room, up to -b (64), and how fast they decode together")
          ->check(CLI::Range(1, 1 << 20));
  app.add_option("--set", groups.sets,
                 "with --capacity a setting: \"NAME: --kv-format residual\"; repeat for more; else "
                 "full, conf, omnikv and deltakv")
      ->needs(capacity);
  for (CLI::Option* option : app.get_options()) {
    for (const char* name : {"n-prompt", "repetitions", "control", "synthetic"}) {
      if (option->check_lname(name)) capacity->excludes(option);
    }
  }
}

std::string kv_help() {
  std::string text = "Flags of the Kvasir side (the stock side is always f16, everything kept):\n";
  for (const auto& flag : flag_help()) {
    text += "  " + std::string(flag.name) + " " + std::string(flag.value) + "  " +
            std::string(flag.text) + "\n";
  }
  return text;
}

// What take_flags() took, as one line: the words of `before` that are not in `after`, in order.
std::string taken(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  std::string line;
  size_t kept = 0;
  for (const auto& word : before) {
    if (kept < after.size() && word == after[kept]) {
      ++kept;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
  }
  return line;
}

void sort_list(std::vector<int32_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// What --capacity asks for.
Result<void> plan_capacity(MeasureFlags& flags, const Groups& groups) {
  const PairedPlan& plan = flags.plan;
  CapacityPlan& capacity = flags.capacity;
  flags.is_capacity = true;
  if (groups.depths->count() > 0) capacity.depth = plan.depths.front();
  if (plan.decode == 0 || capacity.depth == 0 ||
      (groups.depths->count() > 0 && plan.depths.size() > 1)) {
    return Error{"--capacity is of one depth above 0 with one step or more: give -d N -n N"};
  }
  capacity.budget_bytes = int64_t{groups.capacity_mib} << 20;
  if (groups.batches->count() > 0) capacity.most_sequences = plan.batches.back();
  capacity.steps = plan.decode;
  capacity.n_ubatch = flags.n_ubatch;
  capacity.n_threads = flags.n_threads;
  SettingRequest request;
  request.base = flags.options;
  request.base_given = !flags.kv_flags.empty();
  request.sets = groups.sets;
  if (request.sets.empty() && !request.base_given) {
    request.sets = {"conf: --kv-policy conf", "omnikv: --kv-select omnikv",
                    "deltakv: --kv-format residual --kv-select omnikv"};
  }
  auto settings = make_settings(request);
  if (!settings) return Error{settings.error()};
  flags.settings = std::move(settings.value());
  for (const Setting& setting : flags.settings) {
    if (setting.options.budget_mb > 0) {
      return Error{"setting '" + setting.name +
                   "': --kv-budget-mb allows no copies, and nothing is evicted to make room here; "
                   "leave it out"};
    }
  }
  return {};
}

// What no single flag can see.
Result<void> check_together(MeasureFlags& flags, const Groups& groups) {
  PairedPlan& plan = flags.plan;
  sort_list(plan.depths);
  sort_list(plan.batches);
  if (groups.capacity_mib > 0) return plan_capacity(flags, groups);
  if (flags.is_synthetic) {
    if (plan.decode == 0) return Error{"-n 0 leaves nothing to measure with --synthetic"};
    if (groups.depths->count() > 0) flags.synthetic.depths = plan.depths;
    flags.synthetic.steps = plan.decode;
    flags.synthetic.options = flags.options;
    return {};
  }
  if (plan.batches.front() != 1) {
    if (groups.prefill->count() > 0 && plan.prefill > 0) {
      return Error{"-p " + std::to_string(plan.prefill) +
                   " is measured with one sequence: add 1 to --batch, or give -p 0"};
    }
    plan.prefill = 0;
  }
  if (plan.prefill == 0 && plan.decode == 0) {
    return Error{"-p 0 with -n 0 leaves nothing to measure"};
  }
  plan.refill = flags.options.moves_rows();
  plan.b_evicts = flags.options.evicts() && !flags.control;
  plan.copies = flags.options.budget_mb == 0;
  return {};
}

}  // namespace

Result<MeasureFlags> parse_measure(std::vector<std::string> args) {
  MeasureFlags flags;
  const std::vector<std::string> given = args;
  auto split = take_flags(args, flags.options);
  if (!split) return Error{split.error()};
  flags.kv_flags = taken(given, args);
  CLI::App app("Stock llama.cpp against Kvasir: speed in pairs, in one process", "kvasir measure");
  Groups groups;
  add_common(app, flags, groups);
  add_paired(app, flags, groups);
  add_synthetic(app, flags, groups);
  add_capacity(app, groups);
  app.footer(kv_help());
  std::replace(args.begin(), args.end(), std::string("-ub"), std::string("--ub"));
  std::reverse(args.begin(), args.end());  // as CLI11 takes them
  try {
    app.parse(args);
  } catch (const CLI::CallForHelp&) {
    flags.help = app.help();
    return flags;
  } catch (const CLI::ParseError& error) {
    return Error{error.what()};
  }
  auto possible = check_together(flags, groups);
  if (!possible) return Error{possible.error()};
  return flags;
}

}  // namespace kvasir::eval
