#include "eval/answers/scores.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "eval/metrics/interval.h"
#include "eval/metrics/score.h"

namespace kvasir::eval {
namespace {

constexpr uint64_t kBootstrapSeed = 1;
constexpr double kRight = 0.5;  // a score from here on counts as right

const char* name_of(AnswerStatus status) {
  switch (status) {
    case AnswerStatus::kOk:
      return "ok";
    case AnswerStatus::kError:
      return "error";
    case AnswerStatus::kSkipped:
      return "skipped";
  }
  return "";
}

bool is_ok(const Json& sample) { return sample.at("status") == "ok"; }

// Entries of one key in the order in which they first came.
template <typename Value>
struct OrderedGroups {
  std::vector<std::pair<std::string, Value>> all;
  Value& at(const std::string& key) {
    for (auto& [name, value] : all) {
      if (name == key) return value;
    }
    all.emplace_back(key, Value{});
    return all.back().second;
  }
};

struct Group {
  Json head;  // setting, task, tags
  std::vector<double> scores;
  double bytes = 0;
};

void add_to_group(const Json& sample, const std::vector<std::string>& tags,
                  OrderedGroups<Group>& groups) {
  Json chosen = Json::object();
  for (const std::string& tag : tags) {
    if (!sample.at("tags").contains(tag)) return;
    chosen[tag] = sample.at("tags").at(tag);
  }
  const Json head = {
      {"setting", sample.at("setting")}, {"task", sample.at("task")}, {"tags", chosen}};
  Group& group = groups.at(dump_json(head));
  group.head = head;
  group.scores.push_back(sample.at("score"));
  group.bytes += sample.at("bytes").get<double>();
}

}  // namespace

Json sample_entry(const Setting& setting, const Sample& sample, const Question& question,
                  const Answer& answer) {
  Json entry = {{"setting", setting.name},
                {"task", sample.task},
                {"id", sample.id},
                {"question", question.id},
                {"tags", sample.tags},
                {"status", name_of(answer.status)},
                {"score", nullptr},
                {"metric", question.metric},
                {"prediction", answer.prediction},
                {"references", question.references},
                {"n_context", answer.n_context},
                {"n_new", answer.n_new},
                {"kept", answer.kept},
                {"bytes", answer.bytes},
                {"bytes_peak", answer.bytes_peak},
                {"evicted", answer.evicted},
                {"c", nullptr},
                {"seconds", answer.seconds}};
  if (answer.has_confidence) entry["c"] = answer.mean_confidence;
  const Result<double> score = answer.status == AnswerStatus::kOk
                                   ? score_answer(answer.prediction, question)
                                   : Error{answer.error};
  if (score) {
    entry["score"] = score.value();
  } else {
    if (answer.status == AnswerStatus::kOk) entry["status"] = name_of(AnswerStatus::kError);
    entry["error"] = score.error();
  }
  return entry;
}

Json score_entries(std::span<const Json> samples,
                   std::span<const std::vector<std::string>> groups) {
  Json scores = Json::array();
  std::vector<std::vector<std::string>> kinds = {{}};
  kinds.insert(kinds.end(), groups.begin(), groups.end());
  for (const auto& tags : kinds) {
    OrderedGroups<Group> found;
    for (const Json& sample : samples) {
      if (is_ok(sample)) add_to_group(sample, tags, found);
    }
    for (const auto& [key, group] : found.all) {
      if (!tags.empty() && group.head.at("tags").empty()) continue;
      const Interval interval = mean_interval(group.scores, kBootstrapSeed);
      Json entry = group.head;
      entry["n"] = group.scores.size();
      entry["mean"] = interval.mean;
      entry["low"] = interval.low;
      entry["high"] = interval.high;
      entry["bytes_mean"] = group.bytes / static_cast<double>(group.scores.size());
      scores.push_back(std::move(entry));
    }
  }
  return scores;
}

Json flip_entries(std::span<const Json> samples, const std::string& reference) {
  const auto key_of = [](const Json& sample) {
    return dump_json({sample.at("task"), sample.at("id"), sample.at("question")});
  };
  std::map<std::string, bool> right;
  for (const Json& sample : samples) {
    if (is_ok(sample) && sample.at("setting") == reference) {
      right[key_of(sample)] = sample.at("score").get<double>() >= kRight;
    }
  }
  OrderedGroups<Json> flips;
  for (const Json& sample : samples) {
    const auto before = right.find(key_of(sample));
    if (!is_ok(sample) || sample.at("setting") == reference || before == right.end()) continue;
    const Json head = {{"setting", sample.at("setting")}, {"task", sample.at("task")}};
    Json& entry = flips.at(dump_json(head));
    if (entry.is_null()) {
      entry = head;
      entry.update({{"n", 0}, {"to_wrong", 0}, {"to_right", 0}});
    }
    const bool now = sample.at("score").get<double>() >= kRight;
    entry["n"] = entry["n"].get<int>() + 1;
    if (before->second && !now) entry["to_wrong"] = entry["to_wrong"].get<int>() + 1;
    if (!before->second && now) entry["to_right"] = entry["to_right"].get<int>() + 1;
  }
  Json all = Json::array();
  for (auto& [key, entry] : flips.all) all.push_back(std::move(entry));
  return all;
}

std::string score_table(const Json& scores, const Json& flips) {
  char line[256];
  std::string out;
  std::snprintf(line, sizeof(line), "%-22s %-14s %-23s %4s %6s %10s %7s %7s\n", "setting", "task",
                "group", "n", "score", "95 %", "MiB", "flips");
  out += line;
  for (const Json& score : scores) {
    std::string tags;
    for (const auto& [name, value] : score.at("tags").items()) {
      if (!tags.empty()) tags.append(" ");
      tags.append(name).append("=").append(value.is_string() ? value.get<std::string>()
                                                             : value.dump());
    }
    char flipped[32] = "";
    for (const Json& flip : flips) {
      if (tags.empty() && flip.at("setting") == score.at("setting") &&
          flip.at("task") == score.at("task")) {
        std::snprintf(flipped, sizeof(flipped), "-%d/+%d", flip.at("to_wrong").get<int>(),
                      flip.at("to_right").get<int>());
      }
    }
    char interval[32];
    std::snprintf(interval, sizeof(interval), "%.0f to %.0f", 100 * score.at("low").get<double>(),
                  100 * score.at("high").get<double>());
    std::snprintf(line, sizeof(line), "%-22.22s %-14.14s %-23.23s %4d %6.1f %10s %7.1f %7s\n",
                  score.at("setting").get<std::string>().c_str(),
                  score.at("task").get<std::string>().c_str(), tags.c_str(),
                  score.at("n").get<int>(), 100 * score.at("mean").get<double>(), interval,
                  score.at("bytes_mean").get<double>() / 1048576, flipped);
    out += line;
  }
  return out;
}

}  // namespace kvasir::eval
