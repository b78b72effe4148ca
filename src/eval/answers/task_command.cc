#include "eval/answers/task_command.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/fnv1a.h"
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

// Everything that an answer or its score depends on, in one number.
class Digest {
 public:
  void add(std::string_view text) {
    hash_ = fnv1a(text, fnv1a(std::to_string(text.size()), hash_));
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = kFnv1aStart;
};

uint64_t digest_of(const Sample& sample) {
  Digest digest;
  for (const std::string_view text :
       {std::string_view(sample.task), std::string_view(sample.id),
        std::string_view(sample.instructions), std::string_view(sample.context)}) {
    digest.add(text);
  }
  digest.add(dump_json(sample.tags) + (sample.chat ? "chat" : "plain"));
  for (const Question& question : sample.questions) {
    digest.add(dump_json({question.id, question.text, question.answer_prefix, question.references,
                          question.classes, question.metric, question.max_new_tokens,
                          question.first_line_only}));
  }
  return digest.value();
}

Json protocol_of(const AskFlags& flags) {
  return {{"question", flags.question_first ? "compressed with the context" : "after compression"},
          {"same_context", flags.same_context},
          {"cut_middle", flags.cut_middle},
          {"most_tokens", flags.most_tokens},
          {"temperature", flags.temperature},
          {"top_p", flags.top_p},
          {"seeds", flags.seeds}};
}

Json identity_of(const EvalCommand& command, const AskFlags& flags,
                 const std::vector<Sample>& samples) {
  Digest digest;
  for (const Sample& sample : samples) digest.add(std::to_string(digest_of(sample)));
  Json json = command.identity();
  json["samples"] = digest.value();
  json["ask"] = protocol_of(flags);
  return json;
}

// Samples that are asked for twice are asked once; others of the same id get a number.
std::vector<Sample> distinct(const std::vector<Sample>& samples) {
  std::vector<Sample> all;
  std::set<uint64_t> seen;
  std::set<std::pair<std::string, std::string>> ids;
  for (const Sample& sample : samples) {
    if (!seen.insert(digest_of(sample)).second) continue;
    Sample one = sample;
    for (int n = 2; !ids.insert({one.task, one.id}).second; ++n) {
      one.id = sample.id + "#" + std::to_string(n);
    }
    all.push_back(std::move(one));
  }
  return all;
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

// An entry without errors; others are tried again by a run that goes on.
bool is_done(const Json* entries) {
  if (entries == nullptr || !entries->is_array()) return false;
  return std::none_of(entries->begin(), entries->end(),
                      [](const Json& e) { return e.value("status", "error") == "error"; });
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

  Result<void> run(const Answerer& answerer, RunFile& file) {
    double left = 0;
    for (const Unit& unit : units_) left += is_done(file.find(unit.key())) ? 0 : 1;
    if (left == 0) return {};
    Progress progress(left);
    for (const Unit& unit : units_) {
      if (is_done(file.find(unit.key()))) continue;
      auto added = answer(answerer, unit, file);
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
    const auto answers = answerer.answer(*unit.setting, *unit.sample, unit.seed);
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
  std::printf("question %s\n\n", result.at("protocol").at("question").get<std::string>().c_str());
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
      ->check(number_between(0, 10))
      ->capture_default_str();
  app.add_option("--top-p", flags.top_p, "with a temperature")
      ->check(number_between(0, 1))
      ->capture_default_str();
  app.add_option("--seeds", flags.seeds, "answers to each question, seeds 1 to N")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
}

int run_samples(EvalCommand& command, const AskFlags& flags, const MakeSamples& make_samples,
                const std::vector<std::vector<std::string>>& groups) {
  if (flags.question_first && flags.same_context) {
    return command.complain(
        "--question-first with --same-context is not available: only the first "
        "question can be in the context",
        kUsage);
  }
  if (flags.seeds > 1 && flags.temperature == 0) {
    return command.complain("--seeds " + std::to_string(flags.seeds) +
                                ": greedy answers are all the same; give a --temperature",
                            kUsage);
  }
  auto model = command.load();
  if (!model) return command.complain(model.error(), kUsage);
  auto answerer = Answerer::make(model.value(), answer_options(command, flags));
  if (!answerer) return command.complain(answerer.error(), kFailed);
  auto samples = make_samples(answerer.value().counter());
  if (!samples) return command.complain(samples.error(), kUsage);
  samples = distinct(samples.value());
  SampleRun run(command, flags, samples.value());
  const auto result_of = [&](const RunFile& file, double seconds) {
    const std::vector<Json> entries = run.entries(file);
    Json result = command.head(seconds);
    result["protocol"] = protocol_of(flags);
    result["samples"] = entries;
    result["scores"] = score_entries(entries, groups);
    result["flips"] = flip_entries(entries, command.settings().front().name);
    return result;
  };
  return command.carry_out(
      identity_of(command, flags, samples.value()),
      [&](RunFile& file) { return run.run(answerer.value(), file); }, result_of, print);
}

}  // namespace kvasir::eval
