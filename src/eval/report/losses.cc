#include "eval/report/losses.h"

#include <algorithm>
#include <map>

#include "eval/report/numbers.h"
#include "eval/report/result_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

void find_score_losses(const Json& result, Losses& losses) {
  const std::string& reference = reference_of(result);
  for (const Json& score : result.at("scores")) {
    const auto& setting = score.at("setting").get_ref<const std::string&>();
    if (setting == reference || score.at("mean").is_null() || score.at("high").is_null()) continue;
    const auto& task = score.at("task").get_ref<const std::string&>();
    const Json* other = find_score(result, reference, task, score.at("tags"));
    if (other == nullptr || other->at("low").is_null()) continue;
    if (score.at("high").get<double>() >= other->at("low").get<double>()) continue;
    const std::string group = tags_text(score.at("tags"));
    std::string text = setting;
    text.append(" in ").append(task);
    if (!group.empty()) text.append(" (").append(group).append(")");
    text.append(": ").append(interval_text(score)).append(", ").append(reference).append(" ");
    text.append(interval_text(*other)).append(", n ");
    text.append(count_text(score.at("n").get<double>()));
    (group.empty() ? losses.scores : losses.groups).push_back(text);
  }
}

void find_kl_losses(const Json& result, Losses& losses) {
  const double floor = result.at("floor").at("kl");
  const auto points = memory_points(result);
  for (const MemoryPoint& point : points) {
    const MemoryPoint* best = nullptr;
    for (const MemoryPoint& other : points) {
      if (&other == &point || other.bytes > point.bytes) continue;
      // Below the floor two values cannot be told apart.
      if (point.quality <= 2 * std::max(other.quality, floor)) continue;
      if (best == nullptr || other.quality < best->quality) best = &other;
    }
    if (best == nullptr) continue;
    losses.kl.push_back(point.setting + ": KL " + number_text(point.quality) + " at " +
                        mib_text(point.bytes) + " MiB, where " + best->setting + " has " +
                        kl_text(best->quality, floor) + " at " + mib_text(best->bytes) + " MiB");
  }
}

void find_memory_losses(const Json& result, Losses& losses) {
  const auto full = reference_point(result);
  if (!full || full->bytes <= 0) return;
  for (const MemoryPoint& point : memory_points(result)) {
    if (point.bytes < full->bytes) continue;
    losses.memory.push_back(point.setting + ": " + mib_text(point.bytes) +
                            " MiB, no less than the full cache's " + mib_text(full->bytes) +
                            " MiB");
  }
}

struct Failures {
  int64_t errors = 0;
  int64_t skipped = 0;
  int64_t samples = 0;
  std::string first;
};

void find_failures(const Json& result, Losses& losses) {
  std::map<std::string, Failures, std::less<>> by_setting;
  for (const Json& sample : result.at("samples")) {
    Failures& failures = by_setting[sample.at("setting").get_ref<const std::string&>()];
    ++failures.samples;
    const auto& status = sample.at("status").get_ref<const std::string&>();
    if (status == "ok") continue;
    ++(status == "error" ? failures.errors : failures.skipped);
    const auto error = sample.find("error");
    if (failures.first.empty() && error != sample.end() && error->is_string()) {
      failures.first = error->get<std::string>();
    }
  }
  for (const std::string& setting : setting_names(result)) {
    const Failures& failures = by_setting[setting];
    if (failures.errors + failures.skipped == 0) continue;
    losses.failures.push_back(setting + ": " + std::to_string(failures.errors) + " errors and " +
                              std::to_string(failures.skipped) + " skipped of " +
                              std::to_string(failures.samples) + " questions" +
                              (failures.first.empty() ? "" : "; the first: " + failures.first));
  }
}

void find_premise_losses(const Json& result, Losses& losses) {
  for (const Json& row : result.at("correlations")) {
    const auto& signal = row.at("signal").get_ref<const std::string&>();
    if ((signal != "c" && signal != "confidence") || row.at("high").is_null()) continue;
    if (row.at("high").get<double>() < 0) continue;
    losses.premise.push_back("confidence at temperature " +
                             number_text(number_or(row, "temperature", 1)) + ": Pearson " +
                             fixed_text(number_or(row, "pearson", 0), 2) + " [" +
                             fixed_text(number_or(row, "low", 0), 2) + ", " +
                             fixed_text(row.at("high").get<double>(), 2) + "], n " +
                             count_text(row.at("n").get<double>()));
  }
}

}  // namespace

Losses find_losses(const Json& result) {
  Losses losses;
  if (has_scores(result)) {
    find_score_losses(result, losses);
    find_failures(result, losses);
  } else if (kind_of(result) == "fidelity") {
    find_kl_losses(result, losses);
  } else if (kind_of(result) == "premise") {
    find_premise_losses(result, losses);
  }
  find_memory_losses(result, losses);
  return losses;
}

const char* loss_rules() {
  return "Listed are, by rule: scores whose 95 % interval lies wholly below the reference's; KL of "
         "more than twice that of another setting with equal or fewer bytes (and of twice the "
         "floor); caches no smaller than the full one; correlations of confidence with KL that are "
         "not surely below 0; questions that ended in an error or were "
         "skipped.";
}

}  // namespace kvasir::eval
