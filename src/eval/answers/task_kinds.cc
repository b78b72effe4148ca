#include "eval/answers/task_kinds.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include "eval/answers/task_command.h"
#include "eval/data/data_set.h"
#include "eval/tasks/kvretrieval.h"
#include "eval/tasks/many_shot.h"
#include "eval/tasks/needle.h"
#include "eval/tasks/qa_source.h"
#include "eval/tasks/ruler.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

using Groups = std::vector<std::vector<std::string>>;

CLI::Range token_range() { return {64, 1 << 24}; }

void add_lengths(CLI::App& app, std::vector<int32_t>& lengths) {
  app.add_option("--length", lengths, "tokens of a prompt, a list")
      ->delimiter(',')
      ->check(token_range())
      ->capture_default_str();
}

void add_samples(CLI::App& app, int32_t& samples) {
  app.add_option("--samples", samples, "samples of each kind and length, seeds 1 to N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

void add_essay(CLI::App& app, std::string& essay) {
  app.add_option("--essay", essay, "text of haystacks: bible, gpl, a file, or noise")
      ->capture_default_str();
}

// "noise" is no text: the generator repeats its own sentences.
Result<std::string> essay_of(const std::string& name) {
  if (name == "noise") return std::string();
  return read_text(name);
}

Result<void> add_to(std::vector<Sample>& samples, Result<Sample> sample) {
  if (!sample) return Error{sample.error()};
  samples.push_back(std::move(sample.value()));
  return {};
}

// --- needle
struct NeedleFlags {
  std::vector<int32_t> lengths = {1024, 4096};
  std::vector<double> depths = {10, 30, 50, 70, 90};
  std::vector<std::string> kinds = {"number"};
  std::string essay = "bible";
  int32_t samples = 3;
};

Result<std::vector<Sample>> make_needles(const NeedleFlags& flags, const CountTokens& count) {
  auto essay = essay_of(flags.essay);
  if (!essay) return Error{essay.error()};
  const Material material{essay.value()};
  std::vector<Sample> samples;
  for (const std::string& name : flags.kinds) {
    auto kind = find_value_kind(name);
    if (!kind) return Error{"--kind: " + kind.error()};
    for (const int32_t length : flags.lengths) {
      for (const double depth : flags.depths) {
        for (int32_t seed = 1; seed <= flags.samples; ++seed) {
          const NeedleRequest request{length, depth, static_cast<uint64_t>(seed), kind.value()};
          auto added = add_to(samples, make_needle_sample(request, material, count));
          if (!added) return Error{added.error()};
        }
      }
    }
  }
  return samples;
}

// --- ruler
struct RulerFlags {
  std::vector<std::string> tasks = {"all"};
  std::vector<int32_t> lengths = {4096};
  std::string essay = "bible";
  std::string squad, hotpot;
  int32_t samples = 5;
};

Result<std::unique_ptr<QaSource>> read_source(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{"cannot read " + path};
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto source = parse_qa(text, path);
  if (!source) return Error{source.error()};
  return std::make_unique<QaSource>(std::move(source.value()));
}

// Which tasks: those named, or all for which there is material.
Result<std::vector<std::string>> ruler_names(const RulerFlags& flags) {
  std::vector<std::string> all;
  for (const RulerTask& task : ruler_tasks()) all.emplace_back(task.name);
  std::vector<std::string> names;
  for (const std::string& name : flags.tasks) {
    if (name == "all") {
      for (const std::string& one : all) {
        const bool has_material = one == "qa_1"   ? !flags.squad.empty()
                                  : one == "qa_2" ? !flags.hotpot.empty()
                                                  : true;
        if (has_material) names.push_back(one);
      }
    } else if (std::find(all.begin(), all.end(), name) != all.end()) {
      names.push_back(name);
    } else {
      std::string known = "': expected all";
      for (const std::string& one : all) known.append(", ").append(one);
      return Error{("--task '" + name).append(known)};
    }
  }
  return names;
}

Result<std::vector<Sample>> make_ruler(const RulerFlags& flags, const CountTokens& count) {
  auto names = ruler_names(flags);
  if (!names) return Error{names.error()};
  auto essay = essay_of(flags.essay);
  if (!essay) return Error{essay.error()};
  Material material{essay.value()};
  std::unique_ptr<QaSource> squad, hotpot;
  for (auto [path, source, use] : {std::tuple{&flags.squad, &squad, &material.qa_1},
                                   std::tuple{&flags.hotpot, &hotpot, &material.qa_2}}) {
    if (path->empty()) continue;
    auto read = read_source(*path);
    if (!read) return Error{read.error()};
    *source = std::move(read.value());
    *use = source->get();
  }
  std::vector<Sample> samples;
  for (const std::string& name : names.value()) {
    for (const int32_t length : flags.lengths) {
      for (int32_t seed = 1; seed <= flags.samples; ++seed) {
        const RulerRequest request{name, length, static_cast<uint64_t>(seed), material, count};
        auto added = add_to(samples, make_ruler_sample(request));
        if (!added) return Error{added.error()};
      }
    }
  }
  return samples;
}

// --- kvretrieval, manyshot
struct SeriesFlags {
  std::vector<int32_t> lengths = {4096};
  int32_t questions = 5;
  int32_t samples = 5;
};

template <typename Request>
Result<std::vector<Sample>> make_series(const SeriesFlags& flags, const CountTokens& count,
                                        Result<Sample> (*make)(const Request&,
                                                               const CountTokens&)) {
  std::vector<Sample> samples;
  for (const int32_t length : flags.lengths) {
    for (int32_t seed = 1; seed <= flags.samples; ++seed) {
      const Request request{length, flags.questions, static_cast<uint64_t>(seed)};
      auto added = add_to(samples, make(request, count));
      if (!added) return Error{added.error()};
    }
  }
  return samples;
}

template <typename Request>
int series_command(const std::string& kind, const std::string& about,
                   const std::vector<std::string>& args,
                   Result<Sample> (*make)(const Request&, const CountTokens&)) {
  EvalCommand command(kind, about, "smollm2");
  SeriesFlags flags;
  AskFlags ask;
  add_lengths(command.app(), flags.lengths);
  add_samples(command.app(), flags.samples);
  command.app()
      .add_option("--questions", flags.questions, "questions about each context, one after another")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  add_ask_flags(command.app(), ask, false);
  if (auto code = command.parse(args)) return *code;
  return run_samples(
      command, ask,
      [&](const CountTokens& count) { return make_series<Request>(flags, count, make); },
      Groups{{"length"}, {"length", "turn"}});
}

// --- dataset
struct DataFlags {
  std::string format;
  std::vector<std::string> files;
  DataOptions options;
};

void add_data_flags(CLI::App& app, DataFlags& flags) {
  std::vector<std::string> formats;
  for (const DataSet& set : data_sets()) formats.emplace_back(set.name);
  app.add_option("--format", flags.format, "what the files hold")
      ->required()
      ->check(CLI::IsMember(formats));
  app.add_option("--file", flags.files, "a file of samples; repeat for more")->required();
  app.add_option("--prompts", flags.options.prompts_path,
                 "LongBench: its dataset2prompt.json; published scores need it");
  app.add_option("--max-lengths", flags.options.max_new_tokens_path,
                 "LongBench: its dataset2maxlen.json");
  app.add_option("--task", flags.options.task, "SCBench: the task; the file's name if not given");
  app.add_option("--max-new-tokens", flags.options.max_new_tokens, "of every answer")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--limit", flags.options.limit, "samples of each file, the first ones")
      ->check(CLI::Range(1, 1 << 24));
}

Result<std::vector<Sample>> load_all(const DataFlags& flags) {
  std::vector<Sample> samples;
  for (const std::string& file : flags.files) {
    auto loaded = load_data(flags.format, file, flags.options);
    if (!loaded) return Error{loaded.error()};
    samples.insert(samples.end(), loaded.value().begin(), loaded.value().end());
  }
  return samples;
}

}  // namespace

int needle_command(const std::vector<std::string>& args) {
  EvalCommand command("needle", "A value hidden in a text, by length and depth", "smollm2");
  NeedleFlags flags;
  AskFlags ask;
  add_lengths(command.app(), flags.lengths);
  command.app()
      .add_option("--depth", flags.depths, "per cent of the text before the needle, a list")
      ->delimiter(',')
      ->check(number_between(0, 100))
      ->capture_default_str();
  command.app()
      .add_option("--kind", flags.kinds, "number, word, uuid, digits64; a list")
      ->delimiter(',')
      ->capture_default_str();
  add_essay(command.app(), flags.essay);
  add_samples(command.app(), flags.samples);
  add_ask_flags(command.app(), ask, false);
  if (auto code = command.parse(args)) return *code;
  return run_samples(
      command, ask, [&](const CountTokens& count) { return make_needles(flags, count); },
      Groups{{"length"}, {"length", "depth"}});
}

int ruler_command(const std::vector<std::string>& args) {
  EvalCommand command("ruler", "RULER's thirteen tasks, made from a seed", "smollm2");
  RulerFlags flags;
  AskFlags ask;
  command.app()
      .add_option("--task", flags.tasks, "tasks, a list; all: those that need no file, too")
      ->delimiter(',')
      ->capture_default_str();
  add_lengths(command.app(), flags.lengths);
  add_essay(command.app(), flags.essay);
  command.app().add_option("--squad", flags.squad, "SQuAD-format file for qa_1");
  command.app().add_option("--hotpot", flags.hotpot, "HotpotQA-format file for qa_2");
  add_samples(command.app(), flags.samples);
  add_ask_flags(command.app(), ask, false);
  if (auto code = command.parse(args)) return *code;
  return run_samples(
      command, ask, [&](const CountTokens& count) { return make_ruler(flags, count); },
      Groups{{"length"}});
}

int kvretrieval_command(const std::vector<std::string>& args) {
  return series_command<KeyValueRequest>(
      "kvretrieval", "Values of random keys, several questions on one compressed context", args,
      make_key_value_sample);
}

int manyshot_command(const std::vector<std::string>& args) {
  return series_command<ManyShotRequest>(
      "manyshot", "A made-up classification learnt from as many examples as fit", args,
      make_many_shot_sample);
}

int dataset_command(const std::vector<std::string>& args) {
  EvalCommand command("dataset", "Data sets on disk: LongBench, SCBench, AIME", "smollm2");
  DataFlags flags;
  AskFlags ask;
  add_data_flags(command.app(), flags);
  add_ask_flags(command.app(), ask, true);
  if (auto code = command.parse(args)) return *code;
  return run_samples(
      command, ask, [&](const CountTokens&) { return load_all(flags); },
      Groups{{"length_bin"}, {"turn"}});
}

}  // namespace kvasir::eval
