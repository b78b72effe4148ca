#include "eval/report/claims.h"

#include <algorithm>
#include <cmath>

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
constexpr double kPeakShare = 38.7 / 151.0;  // of the full cache's, int8, at 2,048 tokens
constexpr double kSpeedUp = 4.65 / 2.51;
constexpr double kNear = 0.9;  // of a published ratio

Verdict verdict_of(bool holds) { return holds ? Verdict::kReproduced : Verdict::kNotReproduced; }

std::string signed_percent(double ratio) {
  const double percent = 100 * (ratio - 1);
  std::string text = percent < 0 ? "" : "+";
  text.append(fixed_text(percent, 2)).append(" %");
  return text;
}

std::string behind(const std::string& measured, const Json& result) {
  std::string text = measured;
  text.append(" (").append(source_text(result)).append(")");
  return text;
}

double ppl(const Json& set) { return set.at("ppl"); }

// "conf 5.51, window 5.28"
std::string ppl_list(const std::vector<const Json*>& sets) {
  std::string text;
  for (const Json* set : sets) {
    if (!text.empty()) text.append(", ");
    text.append(set->at("name").get<std::string>()).append(" ").append(fixed_text(ppl(*set), 3));
  }
  return text;
}

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

// --- Perplexity
// The methods of the paper's table, worst perplexity first.
std::vector<Method> published_order() {
  return {{"window"},
          {"scissorhands"},
          {"h2o"},
          {"snapkv"},
          {"conf", "int8-channel"},
          {"pyramidkv"},
          {"conf"},
          {"conf", "int8-channel", true}};
}

Claim order_claim(Results results) {
  Claim claim{"At equal memory CONF-KV has the best perplexity, a sliding window the worst",
              "sliding 34.37, Scissorhands 31.94, H2O 31.78, SnapKV 31.41, CONF-KV+INT8 31.26, "
              "PyramidKV 31.09, CONF-KV 30.92, CONF-KV-L 30.48, full 29.14",
              Verdict::kMissing, "",
              "reproduced if four of five pairs stand in the same order; needs fidelity --methods"};
  const Json* result = main_fidelity(results);
  if (result == nullptr) return claim;
  std::vector<const Json*> sets;
  for (const Method& method : published_order()) {
    if (const Json* set = find_set(*result, method)) sets.push_back(set);
  }
  int pairs = 0;
  int same = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (size_t k = i + 1; k < sets.size(); ++k) {
      ++pairs;
      same += ppl(*sets[i]) > ppl(*sets[k]) ? 1 : 0;
    }
  }
  if (pairs == 0) return claim;
  claim.verdict = verdict_of(5 * same >= 4 * pairs);
  std::stable_sort(sets.begin(), sets.end(),
                   [](const Json* a, const Json* b) { return ppl(*a) > ppl(*b); });
  std::string text = ppl_list(sets);
  text.append("; ").append(std::to_string(same)).append(" of ").append(std::to_string(pairs));
  text.append(" pairs in the published order");
  claim.measured = behind(text, *result);
  return claim;
}

Claim pyramid_claim(Results results) {
  Claim claim{"CONF-KV-L, with less in deep layers, is better than CONF-KV+INT8 at less memory",
              "30.48 at 34.2 MB against 31.26 at 38.7 MB", Verdict::kMissing, "",
              "reproduced if both are lower; needs fidelity --methods"};
  const Json* result = main_fidelity(results);
  if (result == nullptr) return claim;
  const Json* uniform = find_set(*result, {"conf", "int8-channel"});
  const Json* pyramid = find_set(*result, {"conf", "int8-channel", true});
  if (uniform == nullptr || pyramid == nullptr) return claim;
  const auto bytes = [](const Json* set) { return set->at("kv").at("bytes_mean").get<double>(); };
  claim.verdict = verdict_of(ppl(*pyramid) < ppl(*uniform) && bytes(pyramid) < bytes(uniform));
  std::string text = fixed_text(ppl(*pyramid), 3);
  text.append(" at ").append(mib_text(bytes(pyramid))).append(" MiB against ");
  text.append(fixed_text(ppl(*uniform), 3)).append(" at ").append(mib_text(bytes(uniform)));
  text.append(" MiB");
  claim.measured = behind(text, *result);
  return claim;
}

Claim format_claim(Results results) {
  Claim claim{"int8 costs little, NF4 more, INT4 most",
              "perplexity +0.34 (int8), then +0.91 (NF4) and +1.65 (INT4) on top: +1.1, +4.0 and "
              "+6.4 % of 30.92",
              Verdict::kMissing, "",
              "reproduced if they rise in this order; needs fidelity under int8-channel, nf4 and "
              "int4 with every token kept"};
  for (const Json& result : results) {
    if (kind_of(result) != "fidelity") continue;
    const Json* int8 = find_set(result, {"none", "int8-channel"});
    const Json* nf4 = find_set(result, {"none", "nf4"});
    const Json* int4 = find_set(result, {"none", "int4"});
    if (int8 == nullptr || nf4 == nullptr || int4 == nullptr) continue;
    claim.verdict = verdict_of(ppl(*int8) < ppl(*nf4) && ppl(*nf4) < ppl(*int4));
    const auto rise = [](const Json* set) {
      std::string text = signed_percent(ppl(*set) / set->at("ppl_reference").get<double>());
      if (!set->contains("ppl_ratio")) return text;
      const Json& ratio = set->at("ppl_ratio");
      text.append(" [").append(signed_percent(ratio.at("low"))).append(", ");
      return text.append(signed_percent(ratio.at("high"))).append("]");
    };
    std::string text = "perplexity ";
    text.append(rise(int8)).append(" (int8-channel), ").append(rise(nf4)).append(" (nf4), ");
    text.append(rise(int4)).append(" (int4)");
    claim.measured = behind(text, result);
    return claim;
  }
  return claim;
}

Claim ranker_claim(Results results) {
  Claim claim{
      "At the same evictions random is worst, then recency alone, then attention alone; "
      "both together are best",
      "random 36.54, recency 32.08, attention 31.47, both 30.92", Verdict::kMissing, "",
      "reproduced if perplexities fall in this order; needs random, recency and attention "
      "with the schedule of a recorded conf run (make report-full)"};
  for (const Json& result : results) {
    if (kind_of(result) != "fidelity") continue;
    std::vector<const Json*> sets;
    for (const char* policy : {"random", "recency", "attention"}) {
      sets.push_back(find_set(result, {policy, "f16", false, true}));
    }
    sets.push_back(find_set(result, {"conf"}));
    if (std::count(sets.begin(), sets.end(), nullptr) > 0) continue;
    claim.verdict = verdict_of(std::is_sorted(
        sets.begin(), sets.end(), [](const Json* a, const Json* b) { return ppl(*a) > ppl(*b); }));
    claim.measured = behind(ppl_list(sets), result);
    return claim;
  }
  return claim;
}

// --- Memory and time
Claim peak_claim(Results results) {
  Claim claim{"CONF-KV+INT8 peaks at a quarter of the full cache",
              "38.7 of 151.0 MB at 2,048 + 2,048 tokens", Verdict::kMissing, "",
              "reproduced within a tenth; needs fidelity --methods. With --kv-prefill exact the "
              "peak is that of the prompt, --kv-prefill stream bounds it"};
  const Json* result = main_fidelity(results);
  const Json* set = result == nullptr ? nullptr : find_set(*result, {"conf", "int8-channel"});
  if (set == nullptr || set->at("kv").at("bytes_full") == 0) return claim;
  const double peak = set->at("kv").at("bytes_peak");
  const double full = set->at("kv").at("bytes_full");
  claim.verdict = verdict_of(peak / full <= kPeakShare / kNear);
  std::string text = mib_text(peak);
  text.append(" of ").append(mib_text(full)).append(" MiB, ").append(percent_text(peak / full));
  claim.measured = behind(text, *result);
  return claim;
}

Claim speed_claim(Results results) {
  Claim claim{"A step with CONF-KV is 1.8 times as fast as with the full cache",
              "p50 4.65 against 2.51 ms (1.85 times), GPT-2 at 2,048 tokens on an H100",
              Verdict::kMissing, "",
              "reproduced from nine tenths of it on; needs fidelity --methods. Here the model's "
              "own weights take most of a step"};
  const Json* result = main_fidelity(results);
  const Json* set = result == nullptr ? nullptr : find_set(*result, {"conf"});
  if (set == nullptr || !result->contains("reference")) return claim;
  const double full = result->at("reference").at("step_ms").at("total").at("p50");
  const double conf = set->at("step_ms").at("total").at("p50");
  if (conf <= 0) return claim;
  claim.verdict = verdict_of(full / conf >= kNear * kSpeedUp);
  std::string text = fixed_text(full, 2);
  text.append(" against ").append(fixed_text(conf, 2)).append(" ms, ");
  text.append(fixed_text(full / conf, 2)).append(" times");
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
  for (const auto judge : {confident_steps, needle_claim, order_claim, pyramid_claim, format_claim,
                           ranker_claim, peak_claim, speed_claim}) {
    claims.push_back(judge(results));
  }
  add_untestable(claims);
  return claims;
}

}  // namespace kvasir::eval
