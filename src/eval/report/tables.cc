#include "eval/report/tables.h"

#include <map>
#include <utility>
#include <vector>

#include "eval/report/claims_neighbours.h"
#include "eval/report/html.h"
#include "eval/report/method_view.h"
#include "eval/report/neighbours_view.h"
#include "eval/report/numbers.h"
#include "eval/report/result_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

/// A table row by row; a column whose heading begins with "#" is set to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) {
    html_ = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
    for (std::string& heading : headings) {
      const bool is_number = heading.front() == '#';
      is_number_.push_back(is_number);
      html_ +=
          open("th scope=\"col\"", is_number) + escape_html(heading.substr(is_number)) + "</th>";
    }
    html_ += "</tr></thead><tbody>\n";
  }

  void add(const std::vector<std::string>& cells) {
    html_ += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      const char* tag = i == 0 ? "th" : "td";
      html_ += open(i == 0 ? "th scope=\"row\"" : "td", is_number_[i]) + escape_html(cells[i]) +
               "</" + tag + ">";
    }
    html_ += "</tr>\n";
    ++rows_;
  }

  size_t rows() const { return rows_; }
  std::string html() const { return html_ + "</tbody></table></div>\n"; }

 private:
  static std::string open(const std::string& tag, bool is_number) {
    return "<" + tag + (is_number ? " class=\"number\">" : ">");
  }

  std::string html_;
  std::vector<bool> is_number_;
  size_t rows_ = 0;
};

std::string field(const Json& object, const char* name, const std::string& missing = "") {
  const auto found = object.find(name);
  return found == object.end() || !found->is_number() ? missing : number_text(found->get<double>());
}

/// "<= floor" as people write it.
std::string shown_kl(double kl, double floor, bool exact) {
  std::string text = kl_text(kl, floor);
  if (text == "<= floor") return "\u2264 floor";
  return exact ? text : "\u2265 " + text;
}

/// "0.132 to 0.178"; nothing in results from before intervals.
std::string range_text(const Json& of) {
  if (!of.contains("low") || !of.contains("high")) return "";
  return number_text(of.at("low")) + " to " + number_text(of.at("high"));
}

std::string ratio_text(const Json& set) {
  const auto ratio = set.find("ppl_ratio");
  return ratio == set.end() ? "" : range_text(*ratio);
}

std::string fidelity_table(const Json& result) {
  const double floor = result.at("floor").at("kl");
  Table table({"setting", "in the papers", "#KL mean, nats", "#95 %", "#median", "#99 %",
               "#same top token", "#perplexity", "#of the full cache's, 95 %",
               "#perplexity, full cache", "#MiB mean", "#MiB peak", "#live tokens a layer",
               "#ms a token, p50"});
  for (const Json& set : result.at("sets")) {
    const Json& kl = set.at("kl");
    const Json& kv = set.at("kv");
    const bool exact = kl.at("exact");
    table.add({set.at("name"), paper_name(method_of(words_text(kv.at("flags")))),
               shown_kl(kl.at("mean"), floor, exact), range_text(kl), number_text(kl.at("median")),
               number_text(kl.at("p99")), percent_text(set.at("same_top")),
               number_text(set.at("ppl")), ratio_text(set), number_text(set.at("ppl_reference")),
               mib_text(kv.at("bytes_mean")), mib_text(kv.at("bytes_peak")),
               count_text(kv.at("live_mean")),
               fixed_text(set.at("step_ms").at("total").at("p50"), 2)});
  }
  const Json& floors = result.at("floor");
  std::string note = "Floor: " + number_text(floor) + " nats";
  if (floors.contains("flash_attention_off") && floors.contains("ubatch_64")) {
    note += " (flash attention off " + field(floors, "flash_attention_off", "not measured") +
            ", ubatch 64 " + field(floors, "ubatch_64", "not measured") + ")";
  }
  note += ": what stock llama.cpp's own paths differ by. Below twice that a KL says nothing.";
  return "<h3>Distance from the full cache</h3>\n" + table.html() + "<p class=\"note\">" +
         escape_html(note) + "</p>\n";
}

std::pair<std::string, std::string> flip_texts(const Json& result, const std::string& setting,
                                               const std::string& task) {
  for (const Json& flip : result.at("flips")) {
    if (flip.at("setting") == setting && flip.at("task") == task) {
      return {count_text(flip.at("to_wrong").get<double>()),
              count_text(flip.at("to_right").get<double>())};
    }
  }
  return {};
}

std::vector<std::string> score_cells(const Json& score) {
  const double bytes = number_or(score, "bytes_mean", -1);
  return {interval_text(score), count_text(score.at("n").get<double>()),
          bytes < 0 ? std::string() : mib_text(bytes)};
}

std::string scores_table(const Json& result) {
  Table table(
      {"task", "setting", "#score [95 %]", "#n", "#MiB", "#right to wrong", "#wrong to right"});
  for (const std::string& task : tasks_of(result)) {
    for (const std::string& setting : setting_names(result)) {
      const Json* score = find_score(result, setting, task, Json::object());
      if (score == nullptr) continue;
      auto [to_wrong, to_right] = flip_texts(result, setting, task);
      std::vector<std::string> cells = {task, setting};
      for (std::string& cell : score_cells(*score)) cells.push_back(std::move(cell));
      cells.push_back(std::move(to_wrong));
      cells.push_back(std::move(to_right));
      table.add(cells);
    }
  }
  return "<h3>Scores</h3>\n" + table.html() +
         "<p class=\"note\">The last two columns count questions that the reference and the "
         "setting both answered.</p>\n";
}

std::string groups_table(const Json& result) {
  Table table({"task", "group", "setting", "#score [95 %]", "#n", "#MiB"});
  for (const Json& score : result.at("scores")) {
    if (score.at("tags").empty() || score.at("mean").is_null()) continue;
    std::vector<std::string> cells = {score.at("task"), tags_text(score.at("tags")),
                                      score.at("setting")};
    for (std::string& cell : score_cells(score)) cells.push_back(std::move(cell));
    table.add(cells);
  }
  if (table.rows() == 0) return "";
  return "<details><summary>Scores of " + std::to_string(table.rows()) + " groups</summary>\n" +
         table.html() + "</details>\n";
}

struct AgentSums {
  double samples = 0;
  double turns = 0;
  double needed = 0;
  double lost = 0;
};

double facts(const Json& sample, const char* name) {
  const auto found = sample.find(name);
  if (found == sample.end()) return 0;
  return found->is_array() ? static_cast<double>(found->size()) : number_or(sample, name, 0);
}

std::string agent_table(const Json& result) {
  std::map<std::string, AgentSums, std::less<>> by_setting;
  for (const Json& sample : result.at("samples")) {
    if (sample.at("status") != "ok") continue;
    AgentSums& sums = by_setting[sample.at("setting").get_ref<const std::string&>()];
    sums.samples += 1;
    sums.turns += number_or(sample, "turns", 0);
    sums.needed += facts(sample, "facts_needed");
    sums.lost += facts(sample, "facts_lost");
  }
  Table table(
      {"setting", "#tasks", "#turns a task", "#facts needed", "#facts lost", "#share lost"});
  for (const std::string& name : setting_names(result)) {
    const AgentSums& sums = by_setting[name];
    if (sums.samples == 0) continue;
    table.add(
        {name, count_text(sums.samples), fixed_text(sums.turns / sums.samples, 1),
         count_text(sums.needed), count_text(sums.lost),
         sums.needed > 0 ? percent_text(sums.lost / sums.needed) : std::string("none needed")});
  }
  return "<h3>What the agent lost</h3>\n" + table.html() +
         "<p class=\"note\">Facts that an answer needed, and those of them that were no longer in "
         "the cache.</p>\n";
}

std::string correlation_table(const Json& result) {
  Table table({"signal", "#temperature", "#Pearson", "#95 % from", "#to", "#Spearman", "#n"});
  for (const Json& row : result.at("correlations")) {
    const auto text = [&](const char* name) {
      return row.contains(name) && row.at(name).is_number() ? fixed_text(row.at(name), 3)
                                                            : std::string("none");
    };
    table.add({row.at("signal"), field(row, "temperature"), text("pearson"), text("low"),
               text("high"), text("spearman"), count_text(row.at("n").get<double>())});
  }
  return "<h3>Correlation with the KL that hiding tokens costs</h3>\n" + table.html();
}

std::string claims_table(const Json& result) {
  Table table({"claim of DeltaKV", "verdict", "published", "measured here", "why so"});
  for (const Claim& claim : neighbours_claims(result)) {
    table.add(
        {claim.text, verdict_text(claim.verdict), claim.published, claim.measured, claim.reason});
  }
  return "<h3>Published and measured</h3>\n" + table.html();
}

std::vector<std::string> layer_cells(const std::string& name, const Json& layer) {
  std::vector<std::string> cells = {name};
  for (const char* of : {"earlier", "reference", "references"}) {
    cells.push_back(percent_text(far_share(layer, of)));
  }
  for (const ReferenceKind& kind : reference_kinds()) {
    std::string text = fixed_text(ratio_of(layer, kind.name, "whole"), 2);
    text.append(" (").append(fixed_text(ratio_of(layer, kind.name, "k"), 2)).append(", ");
    cells.push_back(text.append(fixed_text(ratio_of(layer, kind.name, "v"), 2)).append(")"));
  }
  for (const bool centred : {false, true}) {
    for (const char* of : {"tokens", "residuals"}) {
      cells.push_back(fixed_text(effective_rank(layer, of, centred), 1));
    }
  }
  for (const char* of : {"lengths", "nearest", "random"}) {
    cells.push_back(percent_text(layer.at("k_share").at(of)));
  }
  return cells;
}

std::string distances_table(const Json& result) {
  std::vector<std::string> headings = {"tokens away"};
  for (const std::string& bin : distance_bins(result)) headings.push_back("#" + bin);
  Table table(headings);
  const Json mean = mean_layer(result);
  const auto add = [&](const char* name, const char* of) {
    std::vector<std::string> cells = {name};
    for (const double share : distance_shares(mean, of)) cells.push_back(percent_text(share));
    table.add(cells);
  };
  add("nearest of all earlier tokens", "earlier");
  add("nearest reference", "reference");
  add("the k nearest references", "references");
  return "<h3>How far away</h3>\n" + table.html();
}

std::string layers_table(const Json& result) {
  std::vector<std::string> headings = {"layer", "#far: nearest of all earlier",
                                       "#far: nearest reference", "#far: the k nearest"};
  for (const ReferenceKind& kind : reference_kinds()) {
    headings.push_back(std::string("#|x - m| / |x| (K, V): ") + kind.text);
  }
  for (const char* text :
       {"#rank of x", "#rank of x - m", "#rank of x, centred", "#rank of x - m, centred",
        "#K of |x|\u00b2", "#K of distances\u00b2, nearest", "#K of distances\u00b2, any"}) {
    headings.emplace_back(text);
  }
  Table table(headings);
  for (const Json& layer : result.at("layers")) {
    table.add(layer_cells(count_text(layer.at("layer").get<double>()), layer));
  }
  table.add(layer_cells("mean", mean_layer(result)));
  return "<h3>Layers</h3>\n" + table.html() +
         "<p class=\"note\">Far: more than 16 tokens away. Rank: effective rank, exp of the "
         "entropy "
         "of the shares of squared singular values; centred: less the channel means.</p>\n";
}

}  // namespace

std::string settings_table(const Json& result) {
  Table table({"setting", "policy", "flags"});
  for (const std::string& name : setting_names(result)) {
    const std::string flags = flags_of(result, name);
    const bool is_reference = name == reference_of(result);
    table.add({name, policy_of(result, name),
               is_reference ? (flags.empty() ? std::string("f16, every token kept")
                                             : flags + " (the reference)")
                            : flags});
  }
  return "<h3>Settings</h3>\n" + table.html();
}

std::string measures_tables(const Json& result) {
  if (kind_of(result) == "fidelity") return fidelity_table(result);
  if (kind_of(result) == "premise") return correlation_table(result);
  if (kind_of(result) == "neighbours")
    return claims_table(result) + distances_table(result) + layers_table(result);
  std::string html = scores_table(result);
  if (kind_of(result) == "agent") html += agent_table(result);
  return html + groups_table(result);
}

}  // namespace kvasir::eval
