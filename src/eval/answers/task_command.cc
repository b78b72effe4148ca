#include "eval/answers/task_command.h"

#include <chrono>
#include <cstdio>

#include "eval/answers/scores.h"
#include "eval/progress.h"

namespace kvasir::eval {
namespace {

// One sample under one setting with one sampling seed.
struct Unit {
  const Setting* setting;
  const Sample* sample;
  uint32_t seed;
  std::string key() const {
    return setting->name + "/" + sample->task + "/" + sample->id + "/" + std::to_string(seed);
  }
};

Json identity_of(const EvalCommand& command, const AskFlags& flags,
                 const std::vector<Sample>& samples) {
  uint64_t hash = 1469598103934665603ULL;
  const auto mix = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  };
  for (const Sample& sample : samples) {
    for (const auto& text : {sample.task, sample.id, sample.instructions, sample.context})
      mix(text);
    for (const Question& question : sample.questions) mix(question.text);
  }
  Json json = command.identity();
  json["samples"] = hash;
  json["ask"] = {flags.question_first, flags.same_context, flags.cut_middle, flags.most_tokens,
                 flags.temperature,    flags.top_p,        flags.seeds};
  return json;
}

// Samples of several sampling seeds say so.
Sample with_seed(const Sample& sample, uint32_t seed, bool several) {
  Sample copy = sample;
  if (several) {
    copy.id += "-s" + std::to_string(seed);
    copy.tags["sampling_seed"] = seed;
  }
  return copy;
}

class SampleRun {
 public:
  SampleRun(EvalCommand& command, const AskFlags& flags, const std::vector<Sample>& samples)
      : flags_(flags) {
    for (const Setting& setting : command.settings()) {
      for (const Sample& sample : samples) {
        for (int32_t seed = 1; seed <= flags.seeds; ++seed) {
          units_.push_back({&setting, &sample, static_cast<uint32_t>(seed)});
        }
      }
    }
  }

  Result<void> run(std::shared_ptr<llama_model> model, const AnswerOptions& base, RunFile& file) {
    auto first = Answerer::make(model, base);
    if (!first) return Error{first.error()};
    double left = 0;
    for (const Unit& unit : units_) left += file.find(unit.key()) ? 0 : 1;
    if (left == 0) return {};
    Progress progress(left);
    for (const Unit& unit : units_) {
      if (file.find(unit.key()) != nullptr) continue;
      AnswerOptions options = base;
      options.seed = unit.seed;
      auto answerer = Answerer::make(model, options);
      if (!answerer) return Error{answerer.error()};
      auto added = answer(answerer.value(), unit, file);
      if (!added) return added;
      progress.advance(1, unit.key());
    }
    return {};
  }

  std::vector<Json> entries(const RunFile& file) const {
    std::vector<Json> all;
    for (const Unit& unit : units_) {
      const Json* found = file.find(unit.key());
      if (found != nullptr) all.insert(all.end(), found->begin(), found->end());
    }
    return all;
  }

 private:
  Result<void> answer(const Answerer& answerer, const Unit& unit, RunFile& file) const {
    const auto answers = answerer.answer(*unit.setting, *unit.sample, {});
    const Sample named = with_seed(*unit.sample, unit.seed, flags_.seeds > 1);
    Json entries = Json::array();
    double seconds = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      entries.push_back(sample_entry(*unit.setting, named, named.questions[i], answers[i]));
      seconds += answers[i].seconds;
    }
    return file.add(unit.key(), std::move(entries), seconds);
  }

  const AskFlags& flags_;
  std::vector<Unit> units_;
};

AnswerOptions answer_options(const EvalCommand& command, const AskFlags& flags) {
  AnswerOptions options;
  options.session = command.session_params(0);
  options.most_tokens = flags.most_tokens;
  options.cut_middle = flags.cut_middle;
  options.question_first = flags.question_first;
  options.same_context = flags.same_context;
  options.temperature = flags.temperature;
  options.top_p = flags.top_p;
  return options;
}

void print(const Json& result) {
  std::fputs(score_table(result.at("scores"), result.at("flips")).c_str(), stdout);
  int not_ok = 0;
  std::string why;
  for (const Json& sample : result.at("samples")) {
    if (sample.at("status") == "ok") continue;
    ++not_ok;
    if (why.empty()) why = sample.at("error").get<std::string>();
  }
  if (not_ok > 0) {
    std::printf("%d of %d questions were not answered; the first: %s\n", not_ok,
                static_cast<int>(result.at("samples").size()), why.c_str());
  }
}

}  // namespace

void add_ask_flags(CLI::App& app, AskFlags& flags, bool sampling) {
  app.add_flag("--question-first", flags.question_first,
               "compress the (first) question with the context: query-aware");
  app.add_flag("--same-context", flags.same_context,
               "ask each question anew on the compressed context, not one after the other");
  app.add_flag("--cut-middle", flags.cut_middle,
               "cut the middle of contexts that are too long; without it they are skipped");
  app.add_option("--most-tokens", flags.most_tokens,
                 "tokens of a sample with all its answers; what the model was trained for if not "
                 "given")
      ->check(CLI::Range(16, 1 << 24));
  if (!sampling) return;
  app.add_option("--temperature", flags.temperature, "0: greedy")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--top-p", flags.top_p, "with a temperature")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seeds", flags.seeds, "answers to each question, seeds 1 to N")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
}

int run_samples(EvalCommand& command, const AskFlags& flags, const MakeSamples& make_samples,
                const std::vector<std::vector<std::string>>& groups) {
  auto model = command.load();
  if (!model) return command.complain(model.error(), kUsage);
  const AnswerOptions options = answer_options(command, flags);
  auto answerer = Answerer::make(model.value(), options);
  if (!answerer) return command.complain(answerer.error(), kFailed);
  auto samples = make_samples(answerer.value().counter());
  if (!samples) return command.complain(samples.error(), kUsage);
  auto file = RunFile::open(command.json_path(), identity_of(command, flags, samples.value()));
  if (!file) return command.complain(file.error(), kUsage);

  const auto began = std::chrono::steady_clock::now();
  SampleRun run(command, flags, samples.value());
  auto done = run.run(model.value(), options, file.value());
  if (!done) return command.complain(done.error(), kFailed);
  const double seconds =
      file.value().seconds_before() +
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const std::vector<Json> entries = run.entries(file.value());
  Json result = command.head(seconds);
  result["samples"] = entries;
  result["scores"] = score_entries(entries, groups);
  result["flips"] = flip_entries(entries, command.settings().front().name);
  print(result);
  return command.finish(file.value(), result);
}

}  // namespace kvasir::eval
