#include "eval/premise/premise_command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "eval/fidelity/fidelity_json.h"
#include "eval/premise/correlation.h"
#include "eval/premise/premise.h"
#include "eval/premise/premise_entries.h"
#include "eval/progress.h"
#include "eval/run/eval_command.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

struct Flags {
  std::string text = "bible";
  int32_t tokens = 2048;
  int32_t prefix = 512;
  int32_t every = 4;
  int32_t hidden = 256;
  double tau = 0.7;
  std::vector<double> temperatures = {0, 0.5, 0.7, 1, 1.25, 1.5};
};

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("--text", flags.text, "bible, gpl, or a file")->capture_default_str();
  app.add_option("--tokens", flags.tokens, "tokens of the text that are read")
      ->check(CLI::Range(8, 1 << 24))
      ->capture_default_str();
  app.add_option("--prefix", flags.prefix, "of them, given as a prompt; at least --hidden")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--every", flags.every, "measure every N-th step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--hidden", flags.hidden, "newest tokens that are hidden")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--tau", flags.tau, "threshold of c that is counted")
      ->check(number_between(0, 1))
      ->capture_default_str();
  app.add_option("--temperature", flags.temperatures, "at which c is taken too, a list")
      ->delimiter(',')
      ->check(number_between(0, 100))
      ->capture_default_str();
}

template <typename Get>
std::vector<double> column(const std::vector<PremisePoint>& points, Get get) {
  std::vector<double> values(points.size());
  std::transform(points.begin(), points.end(), values.begin(), get);
  return values;
}

Json number_or_null(double x) {
  if (std::isfinite(x)) return x;
  return nullptr;
}

// Measures what the file does not hold yet; each point becomes an entry of its own.
Result<void> measure_points(const std::shared_ptr<llama_model>& model, const SessionParams& params,
                            const PremisePlan& plan, RunFile& file) {
  const auto n_done = static_cast<int32_t>(points_of(file, plan).size());
  if (n_done == plan.n_points()) return {};
  Progress progress(plan.n_points() - n_done);
  auto last = std::chrono::steady_clock::now();
  return run_premise(model, params, plan, n_done, [&](const PremisePoint& point) -> Result<void> {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> taken = now - last;
    last = now;
    progress.advance(1, "hiding tokens");
    return add_point(file, point, taken.count());
  });
}

Json correlation_json(const std::string& signal, double temperature, std::span<const double> values,
                      std::span<const double> kl) {
  const Correlation found = correlate(values, kl);
  return {{"signal", signal},
          {"temperature", temperature},
          {"n", values.size()},
          {"pearson", number_or_null(found.pearson)},
          {"low", number_or_null(found.low)},
          {"high", number_or_null(found.high)},
          {"spearman", number_or_null(found.spearman)}};
}

Json correlations_of(const std::vector<PremisePoint>& points, const Flags& flags) {
  const auto kl = column(points, [](auto& p) { return p.kl; });
  Json all = Json::array();
  all.push_back(correlation_json("c", 1, column(points, [](auto& p) { return p.c; }), kl));
  all.push_back(
      correlation_json("entropy", 1, column(points, [](auto& p) { return p.entropy; }), kl));
  all.push_back(correlation_json("p1", 1, column(points, [](auto& p) { return p.p1; }), kl));
  all.push_back(
      correlation_json("margin", 1, column(points, [](auto& p) { return p.margin; }), kl));
  for (size_t t = 0; t < flags.temperatures.size(); ++t) {
    if (flags.temperatures[t] == 1) continue;
    all.push_back(correlation_json("c", flags.temperatures[t],
                                   column(points, [&](auto& p) { return p.c_at[t]; }), kl));
  }
  return all;
}

Json result_of(const EvalCommand& command, const Flags& flags,
               const std::vector<PremisePoint>& points, double seconds) {
  Json json = command.head(seconds);
  json["text"] = {{"name", flags.text}, {"tokens", flags.tokens}, {"prefix", flags.prefix}};
  json["hidden"] = flags.hidden;
  json["correlations"] = correlations_of(points, flags);
  json["confidence"] = Json::array();
  for (size_t t = 0; t < flags.temperatures.size(); ++t) {
    Json one = {{"temperature", flags.temperatures[t]}};
    one.update(confidence_json(column(points, [&](auto& p) { return p.c_at[t]; }), flags.tau));
    json["confidence"].push_back(std::move(one));
  }
  json["points"] = Json::array();
  for (const PremisePoint& p : points) {
    json["points"].push_back({{"position", p.position},
                              {"kl", p.kl},
                              {"c", p.c},
                              {"entropy", p.entropy},
                              {"p1", p.p1},
                              {"margin", number_or_null(p.margin)}});
  }
  return json;
}

void print(const Json& result) {
  std::printf("%-10s %11s %6s %9s %18s %9s\n", "signal", "temperature", "n", "Pearson r",
              "95 % interval", "Spearman");
  for (const Json& one : result.at("correlations")) {
    if (one.at("pearson").is_null()) {
      std::printf("%-10s %11.3g %6d %9s\n", one.at("signal").get<std::string>().c_str(),
                  one.at("temperature").get<double>(), one.at("n").get<int>(), "constant");
      continue;
    }
    char interval[40];
    std::snprintf(interval, sizeof(interval), "%+.3f to %+.3f", one.at("low").get<double>(),
                  one.at("high").get<double>());
    std::printf("%-10s %11.3g %6d %+9.3f %18s %+9.3f\n",
                one.at("signal").get<std::string>().c_str(), one.at("temperature").get<double>(),
                one.at("n").get<int>(), one.at("pearson").get<double>(), interval,
                one.at("spearman").get<double>());
  }
  for (const Json& one : result.at("confidence")) {
    std::printf("c at temperature %-4.3g: mean %.3f, %.1f %% of steps at or above %.2g\n",
                one.at("temperature").get<double>(), one.at("mean").get<double>(),
                100 * one.at("above_tau").get<double>(), one.at("tau").get<double>());
  }
}

// The plan, or one line about what does not fit.
Result<PremisePlan> plan_of(const Flags& flags, const llama_vocab* vocab) {
  if (flags.prefix < flags.hidden || flags.prefix >= flags.tokens) {
    return Error{"--prefix " + std::to_string(flags.prefix) + ": expected at least --hidden " +
                 std::to_string(flags.hidden) + " and less than --tokens " +
                 std::to_string(flags.tokens)};
  }
  auto tokens = first_tokens(vocab, flags.text, flags.tokens);
  if (!tokens) return Error{tokens.error()};
  PremisePlan plan{std::move(tokens.value()), flags.prefix, flags.every, flags.hidden,
                   flags.temperatures};
  if (plan.n_points() < 4) {
    return Error{"--every " + std::to_string(flags.every) + " leaves " +
                 std::to_string(plan.n_points()) + " steps, expected at least 4"};
  }
  return plan;
}

}  // namespace

int premise_command(const std::vector<std::string>& args) {
  EvalCommand command("premise",
                      "CONF-KV's premise: confidence against the shift of the next token when the "
                      "newest tokens are hidden",
                      "smollm2-f16");
  Flags flags;
  add_flags(command.app(), flags);
  if (auto code = command.parse(args)) return *code;
  if (command.compares()) {
    return command.complain("no --kv-* flags here: the full cache is looked at", kUsage);
  }
  auto model = command.load();
  if (!model) return command.complain(model.error(), kUsage);
  auto plan = plan_of(flags, llama_model_get_vocab(model.value().get()));
  if (!plan) return command.complain(plan.error(), kUsage);
  Json identity = command.identity();
  identity["plan"] = {flags.text,   flags.tokens, flags.prefix,      flags.every,
                      flags.hidden, flags.tau,    flags.temperatures};
  const auto points = [&](const RunFile& file) { return points_of(file, plan.value()); };
  const auto measure = [&](RunFile& file) {
    return measure_points(model.value(), command.session_params(0), plan.value(), file);
  };
  return command.carry_out(
      identity, measure,
      [&](const RunFile& file, double seconds) {
        return result_of(command, flags, points(file), seconds);
      },
      print);
}

}  // namespace kvasir::eval
