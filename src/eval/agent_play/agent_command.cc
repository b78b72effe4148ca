#include "eval/agent_play/agent_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "eval/agent/endpoint_player.h"
#include "eval/agent/episode.h"
#include "eval/agent/oracle.h"
#include "eval/agent_play/cached_transcript.h"
#include "eval/answers/scores.h"
#include "eval/answers/tokens.h"
#include "eval/progress.h"
#include "eval/run/eval_command.h"

namespace kvasir::eval {
namespace {

using namespace agent;

constexpr int32_t kSpareCells = 16;

struct Flags {
  std::vector<std::string> tasks = {"all"};
  int32_t samples = 3;
  std::string player = "oracle";
  double threshold = 0.5;
  int32_t most_tokens = 0;
  std::vector<int32_t> page_tokens = {1000, 3000};
  int32_t max_steps = 30;
  int32_t max_new_tokens = 256;
  EndpointOptions endpoint;
};

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("--task", flags.tasks, "kinds of tasks, a list; all")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--samples", flags.samples, "tasks of each kind, seeds 1 to N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--player", flags.player,
                 "oracle: knows the plan, but only facts that the cache holds; model: the model "
                 "itself; endpoint: an OpenAI-compatible server")
      ->check(CLI::IsMember({"oracle", "model", "endpoint"}))
      ->capture_default_str();
  app.add_option("--threshold", flags.threshold,
                 "oracle: share of a fact's tokens and layers that must be held")
      ->check(number_between(0, 1))
      ->capture_default_str();
  app.add_option("--page-tokens", flags.page_tokens, "shortest and longest page")
      ->delimiter(',')
      ->expected(2)
      ->capture_default_str();
  app.add_option("--most-tokens", flags.most_tokens,
                 "of an episode; what the model was trained for if not given")
      ->check(CLI::Range(256, 1 << 24));
  app.add_option("--max-steps", flags.max_steps)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--max-new-tokens", flags.max_new_tokens, "of one reply")
      ->check(CLI::Range(8, 1 << 16))
      ->capture_default_str();
  app.add_option("--endpoint", flags.endpoint.address, "http(s)://HOST[:PORT][/v1]");
  app.add_option("--endpoint-model", flags.endpoint.model, "the model's name there");
  app.add_option("--endpoint-key", flags.endpoint.key_variable,
                 "environment variable that holds the key");
  app.add_option("--endpoint-timeout", flags.endpoint.timeout_seconds, "seconds of one reply")
      ->check(number_between(0.001, 86400))
      ->capture_default_str();
}

// The model itself plays.
class ModelPlayer : public Player {
 public:
  ModelPlayer(CachedTranscript& transcript, int32_t most_tokens)
      : transcript_(transcript), most_tokens_(most_tokens) {}
  Result<std::string> act(std::span<const Message> /*transcript*/) override {
    return transcript_.generate(most_tokens_);
  }

 private:
  CachedTranscript& transcript_;
  int32_t most_tokens_;
};

// How an episode ended. One that used up its tokens failed; any other error says nothing of the
// cache and does not count.
Json episode_entry(const Setting& setting, const Environment& environment, const Player& player,
                   const Result<EpisodeResult>& result, bool out_of_room, double seconds) {
  const std::string& kind = environment.task().kind;
  const bool counts = result || out_of_room;
  Json entry = {{"setting", setting.name},
                {"task", kind},
                {"id", kind + "-" + std::to_string(environment.task().seed)},
                {"question", "1"},
                {"tags", {{"seed", environment.task().seed}}},
                {"status", counts ? "ok" : "error"},
                {"score", nullptr},
                {"metric", "success"},
                {"prediction", ""},
                {"references", Json::array()},
                {"n_context", 0},
                {"n_new", 0},
                {"kept", 0},
                {"bytes", 0},
                {"bytes_peak", 0},
                {"evicted", 0},
                {"c", nullptr},
                {"seconds", seconds},
                {"turns", environment.steps()},
                {"facts_needed", player.counts().facts_needed},
                {"facts_lost", player.counts().facts_lost},
                {"lookups", player.counts().lookups},
                {"failed_parse", environment.failed_parse()}};
  if (counts) entry["score"] = result && result.value().success ? 1 : 0;
  if (!counts) entry["error"] = result.error();
  if (out_of_room) entry["ended"] = result.error();
  if (!result) return entry;
  Json replies = Json::array();
  for (const Message& message : result.value().transcript) {
    if (message.role == Role::kAssistant) replies.push_back(message.text);
  }
  entry["prediction"] = replies.dump();
  return entry;
}

class AgentJob {
 public:
  AgentJob(EvalCommand& command, Flags& flags) : command_(command), flags_(flags) {}

  Result<void> prepare() {
    auto model = command_.load();
    if (!model) return Error{model.error()};
    model_ = std::move(model.value());
    auto frame = chat_frame(model_.get());
    if (!frame) return Error{frame.error()};
    frame_ = std::move(frame.value());
    if (flags_.most_tokens == 0) flags_.most_tokens = llama_model_n_ctx_train(model_.get());
    if (flags_.player == "endpoint") {
      if (command_.compares()) {
        return Error{"--player endpoint: the cache is the server's; give it the --kv-* flags"};
      }
      auto player = EndpointPlayer::make(flags_.endpoint);
      if (!player) return Error{player.error()};
      endpoint_ = std::move(player.value());
    }
    auto found = find_tasks();
    if (!found) return found;
    auto first = make_task(kinds_.front(), 1, site_options());
    if (!first) return Error{"--page-tokens: " + first.error()};
    return {};
  }

  Json protocol() const {
    Json json = {{"player", flags_.player},           {"threshold", flags_.threshold},
                 {"most_tokens", flags_.most_tokens}, {"page_tokens", flags_.page_tokens},
                 {"max_steps", flags_.max_steps},     {"max_new_tokens", flags_.max_new_tokens}};
    if (endpoint_ != nullptr) {
      json["endpoint"] = flags_.endpoint.address;
      json["endpoint_model"] = flags_.endpoint.model;
    }
    return json;
  }

  Json identity() const {
    Json json = command_.identity();
    json["agent"] = {{"tasks", kinds_}, {"samples", flags_.samples}, {"protocol", protocol()}};
    return json;
  }

  Result<void> run(RunFile& file) {
    Progress progress(static_cast<double>(command_.settings().size() * kinds_.size()) *
                      flags_.samples);
    for (const Setting& setting : command_.settings()) {
      for (const std::string& kind : kinds_) {
        for (int32_t seed = 1; seed <= flags_.samples; ++seed) {
          const std::string key = setting.name + "/" + kind + "/" + std::to_string(seed);
          const Json* found = file.find(key);
          if (found == nullptr || found->value("status", "error") == "error") {
            auto done = play(setting, kind, seed, key, file);
            if (!done) return done;
          }
          keys_.push_back(key);
          progress.advance(1, key);
        }
      }
    }
    return {};
  }

  std::vector<Json> entries(const RunFile& file) const {
    std::vector<Json> all;
    for (const std::string& key : keys_) all.push_back(*file.find(key));
    return all;
  }

 private:
  Result<void> find_tasks() {
    std::string known = "expected all";
    for (const TaskKind& kind : task_kinds()) known.append(", ").append(kind.name);
    for (const std::string& name : flags_.tasks) {
      bool known_name = false;
      for (const TaskKind& kind : task_kinds()) {
        const bool asked = name == "all" || name == kind.name;
        known_name = known_name || asked;
        const bool fresh = std::find(kinds_.begin(), kinds_.end(), kind.name) == kinds_.end();
        if (asked && fresh) kinds_.emplace_back(kind.name);
      }
      if (!known_name) return Error{("--task '" + name + "': ").append(known)};
    }
    return {};
  }

  SiteOptions site_options() const {
    SiteOptions options;
    options.min_page_tokens = flags_.page_tokens[0];
    options.max_page_tokens = flags_.page_tokens[1];
    options.count = [vocab = llama_model_get_vocab(model_.get())](std::string_view text) {
      return static_cast<int32_t>(tokens_of(vocab, text, false).size());
    };
    return options;
  }

  Result<void> play(const Setting& setting, const std::string& kind, int32_t seed,
                    const std::string& key, RunFile& file) {
    const auto start = std::chrono::steady_clock::now();
    auto task = make_task(kind, static_cast<uint64_t>(seed), site_options());
    if (!task) return Error{task.error()};
    Environment environment(std::move(task.value()), {flags_.max_steps});
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    if (endpoint_ != nullptr) {
      const auto result = run_episode(environment, *endpoint_, nullptr);
      return file.add(key,
                      episode_entry(setting, environment, *endpoint_, result, false, seconds()),
                      seconds());
    }
    auto kv = KvSession::open(model_, setting.options,
                              command_.session_params(flags_.most_tokens + kSpareCells));
    if (!kv) return Error{"setting " + setting.name + ": " + kv.error()};
    CachedTranscript transcript(kv.value(), frame_, flags_.most_tokens);
    std::unique_ptr<Player> player;
    if (flags_.player == "model") {
      player = std::make_unique<ModelPlayer>(transcript, flags_.max_new_tokens);
    } else {
      player =
          std::make_unique<OraclePlayer>(environment, transcript, OracleOptions{flags_.threshold});
    }
    const auto result =
        run_episode(environment, *player, [&](const Message& m) { return transcript.append(m); });
    Json entry =
        episode_entry(setting, environment, *player, result, transcript.out_of_room(), seconds());
    const KvCounts counts = kv.value().counts();
    entry["n_context"] = transcript.n_tokens();
    entry["n_new"] = transcript.n_generated();
    entry["kept"] = counts.live_tokens;
    entry["bytes"] = counts.bytes;
    entry["bytes_peak"] = counts.bytes_peak;
    entry["evicted"] = counts.evicted;
    if (counts.n_confidence > 0) entry["c"] = counts.mean_confidence;
    return file.add(key, std::move(entry), seconds());
  }

  EvalCommand& command_;
  Flags& flags_;
  std::shared_ptr<llama_model> model_;
  ChatFrame frame_;
  std::unique_ptr<EndpointPlayer> endpoint_;
  std::vector<std::string> kinds_;
  std::vector<std::string> keys_;
};

// Means over the episodes of each setting, below the table of scores.
void print_means(const EvalCommand& command, const Json& entries) {
  std::printf("\n%-16s %8s %8s %12s %10s %10s\n", "setting", "success", "turns", "facts lost",
              "MiB end", "MiB peak");
  for (const Setting& setting : command.settings()) {
    double n = 0, success = 0, turns = 0, needed = 0, lost = 0, bytes = 0, peak = 0;
    for (const Json& entry : entries) {
      if (entry.at("setting") != setting.name || entry.at("status") != "ok") continue;
      n += 1;
      success += entry.at("score").get<double>();
      turns += entry.at("turns").get<double>();
      needed += entry.at("facts_needed").get<double>();
      lost += entry.at("facts_lost").get<double>();
      bytes += entry.at("bytes").get<double>();
      peak += entry.at("bytes_peak").get<double>();
    }
    if (n == 0) continue;
    char facts[32];
    std::snprintf(facts, sizeof(facts), "%.0f of %.0f", lost, needed);
    std::printf("%-16.16s %6.1f %% %8.1f %12s %10.1f %10.1f\n", setting.name.c_str(),
                100 * success / n, turns / n, facts, bytes / n / 1048576, peak / n / 1048576);
  }
}

void print(const EvalCommand& command, const Json& result) {
  const Json& entries = result.at("samples");
  std::fputs(score_table(result.at("scores"), result.at("flips")).c_str(), stdout);
  print_means(command, entries);
  for (const Json& entry : entries) {
    if (entry.at("status") == "ok") continue;
    std::printf("not finished: %s: %s\n", entry.at("id").get<std::string>().c_str(),
                entry.at("error").get<std::string>().c_str());
    break;
  }
}

}  // namespace

int agent_command(const std::vector<std::string>& args) {
  EvalCommand command(
      "agent", "Tasks on a web shop and form site, page after page, at most 30 steps", "gemma3");
  Flags flags;
  add_flags(command.app(), flags);
  if (auto code = command.parse(args)) return *code;
  AgentJob job(command, flags);
  auto prepared = job.prepare();
  if (!prepared) return command.complain(prepared.error(), kUsage);
  const auto result_of = [&](const RunFile& file, double seconds) {
    const auto entries = job.entries(file);
    Json result = command.head(seconds);
    result["protocol"] = job.protocol();
    result["samples"] = entries;
    result["scores"] = score_entries(entries, {});
    result["flips"] = flip_entries(entries, command.settings().front().name);
    return result;
  };
  return command.carry_out(
      job.identity(), [&](RunFile& file) { return job.run(file); }, result_of,
      [&](const Json& result) { print(command, result); });
}

}  // namespace kvasir::eval
