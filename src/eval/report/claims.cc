#include "eval/report/claims.h"

#include <algorithm>
#include <cmath>

#include "eval/report/claim_rules.h"
#include "eval/report/method_view.h"
#include "eval/report/numbers.h"
#include "eval/report/result_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;
using Results = std::span<const Json>;

// Figures of the paper that a rule is reckoned from.
constexpr double kNeedleShare = 93.3 / 98.0;  // CONF-KV's share of the full cache's mean
constexpr double kConfidentSteps = 0.42;

// --- The premise
Claim premise_claim() {
  return {
      "A sure step does not miss its recent past: confidence falls where hiding the newest 256 "
      "tokens shifts the next token",
      "Pearson's r -0.77 (GPT-2), -0.38, -0.41, -0.36 (the larger models)", Verdict::kMissing, "",
      "reproduced if the 95 % interval lies below 0; needs a result of kvasir eval premise"};
}

void add_premise(Results results, std::vector<Claim>& claims) {
  const size_t before = claims.size();
  for (const Json& result : results) {
    if (kind_of(result) != "premise") continue;
    for (const Json& one : result.at("correlations")) {
      if (one.at("signal") != "c" || number_or(one, "temperature", 1) != 1) continue;
      if (!one.at("pearson").is_number() || !one.at("high").is_number()) continue;
      Claim claim = premise_claim();
      claim.verdict = verdict_of(one.at("high").get<double>() < 0);
      std::string text = fixed_text(one.at("pearson"), 2);
      text.append(" [").append(fixed_text(number_or(one, "low", 0), 2)).append(", ");
      text.append(fixed_text(one.at("high"), 2)).append("], n ");
      text.append(count_text(one.at("n").get<double>()));
      claim.measured = behind(text, result);
      claims.push_back(std::move(claim));
    }
  }
  if (claims.size() == before) claims.push_back(premise_claim());
}

Claim confident_steps(Results results) {
  Claim claim{"At tau 0.7, 42 % of the steps are sure", "42 %", Verdict::kMissing, "",
              "reproduced within 5 points; needs a result of kvasir eval premise"};
  const Json* premise = first_of_kind(results, "premise");
  if (premise == nullptr) return claim;
  for (const Json& one : premise->at("confidence")) {
    if (one.at("temperature") != 1 || !one.at("above_tau").is_number()) continue;
    const double share = one.at("above_tau");
    claim.verdict = verdict_of(std::abs(share - kConfidentSteps) <= 0.05);
    claim.measured = behind(percent_text(share), *premise);
  }
  return claim;
}

// --- Needles
Claim needle_claim(Results results) {
  Claim claim{"CONF-KV finds nearly what the full cache finds, H2O less, a sliding window little",
              "means of the printed grid, 1K to 32K: full 98.0, CONF-KV 93.3, H2O 83.1, sliding "
              "28.3 (the text says 91.4, 80.6, 53.8)",
              Verdict::kMissing, "",
              "reproduced if CONF-KV has nine tenths of the published share of the full cache, and "
              "more than H2O and the window; needs needles under conf, h2o and window"};
  const Json* result = first_of_kind(results, "needle");
  if (result == nullptr || tasks_of(*result).empty()) return claim;
  const std::string task = tasks_of(*result).front();
  const auto score = [&](const std::string& setting) {
    return setting.empty() ? nullptr : find_score(*result, setting, task, Json::object());
  };
  const Json* full = score(reference_of(*result));
  const Json* conf = score(setting_of(*result, {"conf"}));
  const Json* h2o = score(setting_of(*result, {"h2o"}));
  const Json* window = score(setting_of(*result, {"window"}));
  if (full == nullptr || conf == nullptr || h2o == nullptr || window == nullptr) return claim;
  const auto mean = [](const Json* one) { return one->at("mean").get<double>(); };
  claim.verdict = verdict_of(mean(conf) >= kNear * kNeedleShare * mean(full) &&
                             mean(conf) > mean(h2o) && mean(conf) > mean(window));
  std::string text = "full ";
  text.append(percent_text(mean(full))).append(", CONF-KV ").append(percent_text(mean(conf)));
  text.append(", H2O ").append(percent_text(mean(h2o)));
  text.append(", window ").append(percent_text(mean(window)));
  claim.measured = behind(text, *result);
  return claim;
}

// --- What no run here can test
void add_untestable(std::vector<Claim>& claims) {
  const auto add = [&](const char* text, const char* published, const char* reason) {
    claims.push_back({text, published, Verdict::kUntestable, "", reason});
  };
  add("Megabytes of its tables", "37.7 to 15,840 MB",
      "bytes per token that they imply are 4 to 25 times what those models store in f16 (869, 1211 "
      "and 1934 KB against 197, 49 and 262), and int8's share is the same for all three to three "
      "digits; 38.6 MB for a window of 512 are 1,047 tokens of GPT-2. Shares can be compared, "
      "sizes cannot");
  add("Perplexity of GPT-2 at 4,096 tokens", "table of lengths",
      "the model has 1,024 positions; how the others were handled is not said");
  add("Qwen-14B, gpt-oss-20b, Qwen-32B", "tables of the larger models",
      "the models run here are small ones on a CPU");
  add("VisualWebArena: 95 % of the full cache's success", "38.3 of 40.2 %, 75 tasks",
      "needs gpt-oss-20b and the benchmark's sites; kvasir eval agent asks the same of made-up "
      "sites, with what survives in the cache in place of a model's skill");
  add("Throughput at batch 8", "2.06 times the full cache's on an H100",
      "one sequence on a CPU is measured here");
}

}  // namespace

Verdict verdict_of(bool holds) { return holds ? Verdict::kReproduced : Verdict::kNotReproduced; }

std::string behind(const std::string& measured, const Json& result) {
  std::string text = measured;
  text.append(" (").append(source_text(result)).append(")");
  return text;
}

const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "reproduced";
    case Verdict::kNotReproduced:
      return "not reproduced";
    case Verdict::kUntestable:
      return "not testable here";
    case Verdict::kMissing:
      break;
  }
  return "no result here";
}

std::vector<Claim> judge_claims(Results results) {
  std::vector<Claim> claims;
  add_premise(results, claims);
  claims.push_back(confident_steps(results));
  claims.push_back(needle_claim(results));
  add_fidelity_claims(results, claims);
  add_untestable(claims);
  return claims;
}

}  // namespace kvasir::eval
