#include "eval/report/markdown.h"

#include <algorithm>
#include <cmath>

#include "eval/report/claims.h"
#include "eval/report/claims_neighbours.h"
#include "eval/report/losses.h"
#include "eval/report/markdown_table.h"
#include "eval/report/method_view.h"
#include "eval/report/neighbours_view.h"
#include "eval/report/numbers.h"
#include "eval/report/result_view.h"
#include "eval/report/results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;
using Results = std::span<const Json>;

const char* const kNone = "–";

// "0.154 [0.132, 0.178]", the interval only where the result has one.
std::string kl_cell(const Json& kl, double floor) {
  const double mean = kl.at("mean");
  std::string text = mean != 0 ? kl_text(mean, floor) : "0";
  if (!kl.at("exact").get<bool>()) text.insert(0, "at least ");
  if (kl.contains("low") && kl.contains("high")) {
    text.append(" [").append(number_text(kl.at("low"))).append(", ");
    text.append(number_text(kl.at("high"))).append("]");
  }
  return text;
}

std::string ppl_cell(const Json& set) {
  std::string text = fixed_text(set.at("ppl"), 3);
  if (set.contains("ppl_ratio")) {
    const Json& ratio = set.at("ppl_ratio");
    text.append(" (×").append(fixed_text(ratio.at("mean"), 3)).append(" [");
    text.append(fixed_text(ratio.at("low"), 3)).append(", ");
    text.append(fixed_text(ratio.at("high"), 3)).append("])");
  }
  return text;
}

std::string times_cell(const Json& step_ms) {
  std::string text = fixed_text(step_ms.at("total").at("p50"), 1);
  return text.append(" / ").append(fixed_text(step_ms.at("total").at("p95"), 1));
}

// "6 of 20, 15 to 52 %" of the first task; kNone where the setting was not asked.
std::string needle_cell(const Json* needle, const std::string& setting) {
  if (needle == nullptr || tasks_of(*needle).empty()) return kNone;
  const Json* score = find_score(*needle, setting, tasks_of(*needle).front(), Json::object());
  if (score == nullptr) return kNone;
  const double n = score->at("n");
  std::string text = count_text(std::round(score->at("mean").get<double>() * n));
  text.append(" of ").append(count_text(n));
  if (score->at("low").is_null() || score->at("high").is_null()) return text;
  text.append(", ").append(fixed_text(100 * score->at("low").get<double>(), 0)).append(" to ");
  return text.append(fixed_text(100 * score->at("high").get<double>(), 0)).append(" %");
}

std::vector<std::string> full_row(const Json& result, const Json* needle) {
  const std::string& name = reference_of(result);
  const bool timed = result.contains("reference");
  const Json* first = result.at("sets").empty() ? nullptr : &result.at("sets")[0];
  const auto full = reference_point(result);
  std::string bytes = full ? mib_text(full->bytes) : kNone;
  if (full) bytes.append(" at the end");
  return {name,
          "full",
          bytes,
          "all",
          first != nullptr ? fixed_text(first->at("ppl_reference"), 3) : kNone,
          "0, the reference",
          kNone,
          kNone,
          needle_cell(needle, name),
          timed ? times_cell(result.at("reference").at("step_ms")) : kNone};
}

// Sets by KL, smallest first.
std::vector<const Json*> sorted_sets(const Json& result) {
  std::vector<const Json*> sets;
  for (const Json& set : result.at("sets")) sets.push_back(&set);
  const auto kl = [](const Json* set) { return set->at("kl").at("mean").get<double>(); };
  std::stable_sort(sets.begin(), sets.end(),
                   [&](const Json* a, const Json* b) { return kl(a) < kl(b); });
  return sets;
}

std::string fidelity_table(const Json& result, const Json* needle) {
  const double floor = result.at("floor").at("kl");
  MarkdownTable table({"setting", "in the papers", "#MiB mean", "#tokens kept",
                       "#perplexity (ratio, 95 %)", "#KL mean, 95 %", "#KL 99 %", "#same top",
                       "#needles found, 95 %", "#step p50 / p95, ms"});
  table.add(full_row(result, needle));
  for (const Json* set : sorted_sets(result)) {
    const std::string name = set->at("name");
    const Json& kv = set->at("kv");
    const std::string paper = paper_name(method_of(words_text(kv.at("flags"))));
    table.add({name, paper.empty() ? kNone : paper, mib_text(kv.at("bytes_mean")),
               count_text(kv.at("live_mean")), ppl_cell(*set), kl_cell(set->at("kl"), floor),
               number_text(set->at("kl").at("p99")), percent_text(set->at("same_top")),
               needle_cell(needle, name), times_cell(set->at("step_ms"))});
  }
  return table.text();
}

// A command as others would give it: where its result was written is nobody else's path.
std::string command_text(const Json& result) {
  std::string text = words_text(result.at("command"));
  const size_t at = text.find(" --json ");
  if (at != std::string::npos) text.erase(at, text.find(" --", at + 1) - at);
  return text.insert(0, "kvasir ");
}

// What was run, where and when: one list item.
std::string run_facts(const Json& result) {
  std::string text = "- ";
  text.append(kind_of(result)).append(": ").append(escape_markdown(source_text(result)));
  const Json& machine = result.at("machine");
  text.append("; ").append(escape_markdown(machine.at("cpu").get<std::string>()));
  text.append(", ").append(count_text(number_or(machine, "threads", 0))).append(" threads; ");
  text.append(escape_markdown(result.at("began").get<std::string>())).append(", took ");
  text.append(duration_text(result.at("seconds"))).append(", version ");
  text.append(escape_markdown(result.at("kvasir").get<std::string>())).append(". ");
  return text.append(code_text(command_text(result))).append("\n");
}

std::string context_text(const Json& result) {
  const Json& about = result.at("text");
  std::string text = "Context: ";
  text.append(count_text(number_or(about, "tokens", 0))).append(" tokens, the first ");
  text.append(count_text(number_or(about, "prefix", 0)));
  text.append(" as a prompt, the others one by one. ");
  const Json& floor = result.at("floor");
  text.append("Floor: KL ").append(number_text(floor.at("kl")));
  text.append(
      " nats, what stock llama.cpp's own exact paths differ by; below twice that a value "
      "reads \"<= floor\".");
  if (result.contains("methods")) {
    text.append(" Each setting has the bytes of ");
    text.append(count_text(result.at("methods").get<double>()));
    text.append(
        " f16 tokens a layer, rows and what is kept of each token counted; CONF-KV-L has "
        "the budget of CONF-KV+INT8 and so fewer. MiB are measured: workspace and pages that are "
        "not full are in them, too. Sorted by KL.");
  }
  return text.append("\n");
}

std::string main_section(Results results, const Json*& fidelity, const Json*& needle) {
  fidelity = first_of_kind(results, "fidelity");
  needle = first_of_kind(results, "needle");
  std::string text = "## Main table\n\n";
  if (fidelity == nullptr) return text.append("No fidelity result is among these files.\n");
  text.append(context_text(*fidelity)).append("\n");
  text.append(fidelity_table(*fidelity, needle)).append("\n").append(run_facts(*fidelity));
  if (needle == nullptr) return text.append("- needles: no result among these files\n");
  return text.append(run_facts(*needle));
}

std::string score_table(const Json& result) {
  MarkdownTable table({"task", "setting", "#score, 95 %", "#n", "#MiB"});
  for (const std::string& task : tasks_of(result)) {
    for (const std::string& setting : setting_names(result)) {
      const Json* score = find_score(result, setting, task, Json::object());
      if (score == nullptr) continue;
      const double bytes = number_or(*score, "bytes_mean", -1);
      table.add({task, setting, interval_text(*score), count_text(score->at("n").get<double>()),
                 bytes < 0 ? kNone : mib_text(bytes)});
    }
  }
  return table.text();
}

std::string correlation_table(const Json& result) {
  MarkdownTable table({"signal", "#temperature", "#Pearson, 95 %", "#Spearman", "#n"});
  for (const Json& row : result.at("correlations")) {
    if (!row.at("pearson").is_number()) continue;
    std::string pearson = fixed_text(row.at("pearson"), 2);
    pearson.append(" [").append(fixed_text(number_or(row, "low", 0), 2)).append(", ");
    pearson.append(fixed_text(number_or(row, "high", 0), 2)).append("]");
    table.add({row.at("signal"), number_text(number_or(row, "temperature", 1)), pearson,
               fixed_text(number_or(row, "spearman", 0), 2),
               count_text(row.at("n").get<double>())});
  }
  return table.text();
}

std::string neighbours_tables(const Json& result) {
  MarkdownTable figures({"mean of the layers", "#here"});
  for (const MainFigure& figure : main_figures(result)) {
    figures.add({figure.name, figure.text()});
  }
  MarkdownTable claims({"claim of DeltaKV", "published", "measured here", "verdict", "why so"});
  for (const Claim& claim : neighbours_claims(result)) {
    claims.add(
        {claim.text, claim.published, claim.measured, verdict_text(claim.verdict), claim.reason});
  }
  return figures.text() + "\n" + claims.text();
}

// Every other result with its own table.
std::string other_sections(Results results, const Json* fidelity, const Json* needle) {
  std::string text;
  for (const Json& result : results) {
    if (&result == fidelity || &result == needle) continue;
    text.append("\n## ").append(kind_of(result)).append(": ");
    text.append(escape_markdown(source_text(result))).append("\n\n");
    if (kind_of(result) == "fidelity") {
      text.append(context_text(result)).append("\n").append(fidelity_table(result, nullptr));
    } else if (kind_of(result) == "premise") {
      text.append(correlation_table(result));
    } else if (kind_of(result) == "neighbours") {
      text.append(neighbours_tables(result));
    } else {
      text.append(score_table(result));
    }
    text.append("\n").append(run_facts(result));
  }
  return text;
}

bool is_of_conf(const Json& result, const std::string& line) {
  for (const std::string& name : setting_names(result)) {
    if (method_of(flags_of(result, name)).policy != "conf" || line.rfind(name, 0) != 0) continue;
    const std::string rest = line.substr(name.size());
    if (rest.rfind(": ", 0) == 0 || rest.rfind(" in ", 0) == 0) return true;
  }
  return false;
}

// Settings of no more bytes whose interval of KL lies wholly below that of `conf`.
std::string nearer_than(const Json& result, const Json& conf) {
  std::string names;
  for (const Json* other : sorted_sets(result)) {
    const Json& kl = other->at("kl");
    if (other == &conf || !kl.contains("high") || !conf.at("kl").contains("low")) continue;
    if (other->at("kv").at("bytes_mean") > conf.at("kv").at("bytes_mean")) continue;
    if (kl.at("high") >= conf.at("kl").at("low")) continue;
    if (!names.empty()) names.append(", ");
    names.append(other->at("name").get<std::string>());
  }
  return names;
}

void add_lines(const Json& result, const std::vector<std::string>& lines, bool of_conf_only,
               std::string& text) {
  for (const std::string& line : lines) {
    if (of_conf_only && !is_of_conf(result, line)) continue;
    text.append("- ").append(escape_markdown(line)).append("\n");
  }
}

std::string losses_of(const Json& result) {
  std::string text;
  if (kind_of(result) == "fidelity") {
    for (const Json& set : result.at("sets")) {
      if (method_of(words_text(set.at("kv").at("flags"))).policy != "conf") continue;
      const std::string nearer = nearer_than(result, set);
      if (nearer.empty()) continue;
      std::string line = set.at("name");
      line.append(": nearer to the full cache with no more bytes, intervals apart: ");
      add_lines(result, {line.append(nearer)}, false, text);
    }
  }
  const Losses losses = find_losses(result);
  add_lines(result, losses.scores, true, text);
  add_lines(result, losses.kl, true, text);
  add_lines(result, losses.memory, true, text);
  add_lines(result, losses.premise, false, text);
  add_lines(result, losses.failures, true, text);
  return text;
}

std::string losses_section(Results results) {
  std::string text = "\n## Where CONF-KV loses\n";
  bool nowhere = true;
  for (const Json& result : results) {
    const std::string lines = losses_of(result);
    if (lines.empty()) continue;
    nowhere = false;
    text.append("\n### ").append(kind_of(result)).append(": ");
    text.append(escape_markdown(source_text(result))).append("\n").append(lines);
  }
  if (nowhere) text.append("\nNowhere, by the rules below.\n");
  text.append("\n").append(escape_markdown(loss_rules()));
  return text.append(" The page beside the result files has the losses of all settings.\n");
}

std::string claims_section(Results results) {
  MarkdownTable table({"claim", "published", "measured here", "verdict", "why so"});
  for (const Claim& claim : judge_claims(results)) {
    table.add({claim.text, claim.published, claim.measured.empty() ? kNone : claim.measured,
               verdict_text(claim.verdict), claim.reason});
  }
  std::string text = "\n## Published claims of CONF-KV (arXiv 2605.24786)\n\n";
  return text.append(table.text());
}

}  // namespace

Result<std::string> to_markdown(Results results, const std::vector<std::string>& names) {
  if (results.empty()) return Error{"found no result, expected at least one"};
  for (size_t i = 0; i < results.size(); ++i) {
    const auto checked = check_result(results[i], i < names.size() ? names[i] : "result");
    if (!checked) return Error{checked.error()};
  }
  std::string text = kMarkdownMark;
  text.append(
      "\n# Results\n\nWhat each setting costs on the default model, from the result files "
      "of `make report`; [evaluation.md](evaluation.md) says how each is measured.\n\n");
  const Json* fidelity = nullptr;
  const Json* needle = nullptr;
  text.append(main_section(results, fidelity, needle));
  text.append(other_sections(results, fidelity, needle)).append(losses_section(results));
  return text.append(claims_section(results));
}

}  // namespace kvasir::eval
