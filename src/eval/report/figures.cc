#include "eval/report/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "eval/report/figures_neighbours.h"
#include "eval/report/method_view.h"
#include "eval/report/numbers.h"
#include "eval/report/result_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMib = 1048576;
constexpr size_t kMany = 12;    // settings from which lines by position cannot be told apart
constexpr size_t kNearest = 6;  // of these, those with the least KL are shown
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The names in the order of the file: they give every figure the same colours.
Json names_of(const Json& result) { return setting_names(result); }

std::string memory_title(const std::vector<MemoryPoint>& points, const MemoryPoint& full,
                         bool is_kl, double floor) {
  const auto better = [&](const MemoryPoint& a, const MemoryPoint& b) {
    return is_kl ? a.quality < b.quality : a.quality > b.quality;
  };
  const MemoryPoint& best = *std::min_element(points.begin(), points.end(), better);
  std::string value = "score " + fixed_text(best.quality, 2);
  if (!is_kl) {
    value += " (" + full.setting + ": " + fixed_text(full.quality, 2) + ")";
  } else if (best.quality < 2 * floor) {
    value = "KL within twice the floor";
  } else {
    value = "KL " + number_text(best.quality) + " nats";
  }
  return "Quality against memory: " + best.setting + " comes nearest to the full cache, " + value +
         " at " + mib_text(best.bytes) + " of " + mib_text(full.bytes) + " MiB";
}

std::string memory_note(bool is_kl, bool many) {
  std::string note = many ? "A line for each setting, the nearest to the full cache above, its MiB "
                            "at the right. "
                          : "Each mark is a setting; a line joins the settings of one policy. ";
  if (!many) note.append(is_kl ? "Lower" : "Higher").append(" and further left is better. ");
  note.append(is_kl
                  ? "Bytes are means over the steps; the full cache's are those at the end. Below "
                    "the dashed floor, stock llama.cpp differs from itself by as much."
                  : "Bytes after compression, mean over the questions.");
  return note.append(is_kl ? " Bars are 95 % intervals."
                           : " Bars are 95 % intervals (with one task).");
}

void add_memory(const Json& result, std::vector<Figure>& figures) {
  const auto points = memory_points(result);
  const auto full = reference_point(result);
  if (points.empty() || !full) return;
  const bool is_kl = kind_of(result) == "fidelity";
  const double floor = is_kl ? result.at("floor").at("kl").get<double>() : 0;
  Figure figure{"memory", memory_title(points, *full, is_kl, floor), "", false, {}};
  figure.note = memory_note(is_kl, points.size() > kMany);
  Json values = Json::array();
  for (const MemoryPoint& point : points) {
    values.push_back({{"setting", point.setting},
                      {"policy", policy_of(result, point.setting)},
                      {"format", method_of(flags_of(result, point.setting)).format},
                      {"mib", point.bytes / kMib},
                      {"quality", point.quality},
                      {"low", point.low ? Json(*point.low) : Json()},
                      {"high", point.high ? Json(*point.high) : Json()}});
  }
  figure.data = {{"points", values},
                 {"kl", is_kl},
                 {"full_mib", full->bytes / kMib},
                 {"full_name", full->setting},
                 {"reference", is_kl ? floor : full->quality}};
  figures.push_back(std::move(figure));
}

// With many settings: the nearest ones and those of CONF-KV.
bool has_line(const Json& result, const Json& set) {
  if (result.at("sets").size() <= kMany) return true;
  if (method_of(words_text(set.at("kv").at("flags"))).policy == "conf") return true;
  size_t nearer = 0;
  for (const Json& other : result.at("sets")) {
    nearer += other.at("kl").at("mean") < set.at("kl").at("mean") ? 1 : 0;
  }
  return nearer < kNearest;
}

void add_position(const Json& result, std::vector<Figure>& figures) {
  Json points = Json::array();
  double worst = -kInfinity;
  std::string worst_text;
  for (const Json& set : result.at("sets")) {
    if (!has_line(result, set)) continue;
    for (const Json& bin : set.at("curve")) {
      if (bin.at("kl").is_null()) continue;
      const double kl = bin.at("kl");
      const double position = bin.at("position");
      points.push_back({{"setting", set.at("name")},
                        {"position", position},
                        {"kl", kl},
                        {"tokens", bin.at("tokens")}});
      if (kl <= worst) continue;
      worst = kl;
      worst_text = number_text(kl) + " nats, " + set.at("name").get<std::string>() +
                   " from position " + count_text(position) + " on";
    }
  }
  if (points.empty()) return;
  std::string note =
      "Means over bins of positions, against the full cache; lower is better. Dashed: the floor.";
  if (result.at("sets").size() > kMany) {
    note.append(" Shown are CONF-KV's settings and the nearest ones.");
  }
  figures.push_back({"position",
                     "KL by position: largest " + worst_text,
                     note,
                     false,
                     {{"points", points},
                      {"settings", names_of(result)},
                      {"floor", result.at("floor").at("kl")}}});
}

Json budget_rules(const std::string& flags) {
  Json budgets = Json::array();
  const auto add = [&](const char* flag, const char* label) {
    if (const auto value = flag_number(flags, flag)) {
      budgets.push_back({{"value", *value}, {"label", label}});
    }
  };
  add("--kv-low", "unsure");
  add("--kv-high", "sure");
  if (budgets.empty()) add("--kv-budget", "budget");
  return budgets;
}

void add_trace(const Json& result, std::vector<Figure>& figures) {
  for (const Json& set : result.at("sets")) {
    const Json& trace = set.at("trace");
    if (trace.empty()) continue;
    const auto name = set.at("name").get<std::string>();
    Json steps = Json::array();
    double least = kInfinity;
    double most = 0;
    bool has_c = false;
    for (const Json& step : trace) {
      const double live = step.at("live");
      least = std::min(least, live);
      most = std::max(most, live);
      has_c = has_c || !step.at("c").is_null();
      steps.push_back({step.at("position"), live, step.at("c")});
    }
    const auto confidence = set.find("confidence");
    // With many settings, only those whose budget moves.
    if (result.at("sets").size() > kMany && least == most) continue;
    const bool has_tau = confidence != set.end() && confidence->is_object();
    figures.push_back({"sawtooth",
                       name + ": " + (least < most ? count_text(least) + " to " : std::string()) +
                           count_text(most) + " live tokens a layer over " +
                           count_text(static_cast<double>(trace.size())) + " steps",
                       has_c ? "Above: tokens kept after each step, dashed: the budget. Below: "
                               "confidence c of the step; dashed: tau."
                             : "Tokens kept after each step; dashed: the budget.",
                       true,
                       {{"name", name},
                        {"settings", names_of(result)},
                        {"steps", steps},
                        {"has_c", has_c},
                        {"budgets", budget_rules(words_text(set.at("kv").at("flags")))},
                        {"tau", has_tau ? confidence->value("tau", Json()) : Json()}}});
  }
}

void add_histogram(const Json& confidence, const std::string& name, std::vector<Figure>& figures) {
  double total = 0;
  for (const Json& count : confidence.at("histogram")) total += count.get<double>();
  if (total <= 0) return;
  const Json tau = confidence.value("tau", Json());
  const Json above = confidence.value("above_tau", Json());
  std::string title = name + ": confidence of " + count_text(total) + " steps";
  if (tau.is_number() && above.is_number()) {
    title = name + ": " + percent_text(above.get<double>()) + " of " + count_text(total) +
            " steps are sure (c at or above tau " + number_text(tau.get<double>()) + ")";
  }
  figures.push_back({"confidence",
                     title,
                     "",
                     true,
                     {{"bins", confidence.at("histogram")}, {"total", total}, {"tau", tau}}});
}

void add_step_times(const Json& result, std::vector<Figure>& figures) {
  Json parts = Json::array();
  Json totals = Json::array();
  double least = 1;
  double most = 0;
  for (const Json& set : result.at("sets")) {
    const Json& times = set.at("step_ms");
    const double total = times.at("total").at("mean");
    if (total <= 0) continue;
    for (const char* part :
         {"attention", "append", "metadata", "compaction", "confidence", "rest"}) {
      parts.push_back({{"setting", set.at("name")},
                       {"part", part},
                       {"ms", std::max(0.0, times.at(part).at("mean").get<double>())},
                       {"p95", times.at(part).at("p95")}});
    }
    totals.push_back(
        {{"setting", set.at("name")}, {"mean", total}, {"p95", times.at("total").at("p95")}});
    const double share = times.at("attention").at("mean").get<double>() / total;
    least = std::min(least, share);
    most = std::max(most, share);
  }
  if (totals.empty()) return;
  figures.push_back({"step_time",
                     "Time of a decode step: attention takes " + percent_text(least) +
                         (totals.size() > 1 ? " to " + percent_text(most) : std::string()),
                     "Means; the tick is the 95th percentile of the whole step.",
                     false,
                     {{"parts", parts}, {"totals", totals}}});
}

void add_scores(const Json& result, std::vector<Figure>& figures) {
  Json rows = Json::array();
  int compared = 0;
  int below = 0;
  for (const std::string& task : tasks_of(result)) {
    const Json* reference = find_score(result, reference_of(result), task, Json::object());
    for (const std::string& setting : setting_names(result)) {
      const Json* score = find_score(result, setting, task, Json::object());
      if (score == nullptr) continue;
      rows.push_back({{"setting", setting},
                      {"task", task},
                      {"mean", score->at("mean")},
                      {"low", score->at("low")},
                      {"high", score->at("high")},
                      {"n", score->at("n")}});
      if (reference == nullptr || score == reference) continue;
      ++compared;
      below += number_or(*score, "high", 1) < number_or(*reference, "low", 0) ? 1 : 0;
    }
  }
  if (rows.empty()) return;
  figures.push_back({"scores",
                     "Scores: " + std::to_string(below) + " of " + std::to_string(compared) +
                         " lie below " + reference_of(result) + ", with intervals apart",
                     "Means with 95 % intervals; further right is better.",
                     false,
                     {{"rows", rows}, {"settings", names_of(result)}}});
}

bool has_tags(const Json& tags, std::initializer_list<const char*> names) {
  if (tags.size() != names.size()) return false;
  return std::all_of(names.begin(), names.end(), [&](const char* name) {
    return tags.contains(name) && tags.at(name).is_number();
  });
}

void add_needle(const Json& result, std::vector<Figure>& figures) {
  for (const std::string& task : tasks_of(result)) {
    for (const std::string& setting : setting_names(result)) {
      Json cells = Json::array();
      for (const Json& score : result.at("scores")) {
        if (score.at("setting") != setting || score.at("task") != task ||
            score.at("mean").is_null() || !has_tags(score.at("tags"), {"length", "depth"})) {
          continue;
        }
        cells.push_back({{"length", score.at("tags").at("length")},
                         {"depth", score.at("tags").at("depth")},
                         {"score", score.at("mean")},
                         {"low", score.at("low")},
                         {"high", score.at("high")},
                         {"n", score.at("n")}});
      }
      if (cells.empty()) continue;
      const Json* whole = find_score(result, setting, task, Json::object());
      std::string title = setting;
      title += ", " + task;
      if (whole != nullptr) title += ": score " + interval_text(*whole);
      figures.push_back({"needle", title, "", true, {{"cells", cells}}});
    }
  }
}

void add_lengths(const Json& result, std::vector<Figure>& figures) {
  for (const std::string& task : tasks_of(result)) {
    Json points = Json::array();
    for (const Json& score : result.at("scores")) {
      if (score.at("task") != task || score.at("mean").is_null() ||
          !has_tags(score.at("tags"), {"length"})) {
        continue;
      }
      points.push_back({{"setting", score.at("setting")},
                        {"length", score.at("tags").at("length")},
                        {"score", score.at("mean")},
                        {"low", score.at("low")},
                        {"high", score.at("high")},
                        {"n", score.at("n")}});
    }
    if (points.size() < 2) continue;
    figures.push_back({"length",
                       task + ": score by length of the context",
                       "Means with 95 % intervals.",
                       true,
                       {{"points", points}, {"settings", names_of(result)}}});
  }
}

void add_premise(const Json& result, std::vector<Figure>& figures) {
  Json points = Json::array();
  for (const Json& point : result.at("points")) {
    if (point.at("kl").is_null() || point.at("c").is_null()) continue;
    points.push_back({point.at("c"), point.at("kl"), point.at("position")});
  }
  std::string found;
  for (const Json& correlation : result.at("correlations")) {
    const Json& signal = correlation.at("signal");
    if ((signal != "c" && signal != "confidence") || correlation.at("pearson").is_null()) continue;
    const auto text = [&](const char* name) {
      return fixed_text(number_or(correlation, name, 0), 2);
    };
    found = "Pearson " + text("pearson") + " [" + text("low") + ", " + text("high") + "], n " +
            count_text(correlation.at("n").get<double>());
    // Temperature 1 is the model's own; without it the first one is shown.
    if (number_or(correlation, "temperature", 1) == 1) break;
  }
  if (!points.empty()) {
    figures.push_back({"premise",
                       "Confidence against the KL that hiding " +
                           count_text(result.at("hidden").get<double>()) + " tokens costs" +
                           (found.empty() ? "" : ": " + found),
                       "Each dot is a position, each bar the median of a tenth of c. If confidence "
                       "said where tokens are needed, KL would fall from left to right. Far "
                       "smaller KL than the others lies on the lower edge.",
                       false,
                       {{"points", points}}});
  }
  for (const Json& confidence : result.at("confidence")) {
    add_histogram(confidence,
                  "temperature " + number_text(confidence.at("temperature").get<double>()),
                  figures);
  }
}

}  // namespace

std::vector<Figure> make_figures(const Json& result) {
  std::vector<Figure> figures;
  add_memory(result, figures);
  if (kind_of(result) == "fidelity") {
    add_position(result, figures);
    add_trace(result, figures);
    for (const Json& set : result.at("sets")) {
      const auto confidence = set.find("confidence");
      if (confidence != set.end() && confidence->is_object() && has_line(result, set)) {
        add_histogram(*confidence, set.at("name").get<std::string>(), figures);
      }
    }
    add_step_times(result, figures);
  } else if (kind_of(result) == "premise") {
    add_premise(result, figures);
  } else if (kind_of(result) == "neighbours") {
    add_neighbours(result, figures);
  } else {
    add_scores(result, figures);
    add_needle(result, figures);
    add_lengths(result, figures);
  }
  return figures;
}

}  // namespace kvasir::eval
