#include "eval/report/result_view.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c != ' ' && c != '\t' && c != '\n') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

/// The mean over the tasks that `setting` has; the interval only if there is one.
std::optional<MemoryPoint> score_point(const Json& result, const std::string& setting) {
  MemoryPoint point;
  point.setting = setting;
  int tasks = 0;
  int with_bytes = 0;
  for (const std::string& task : tasks_of(result)) {
    const Json* score = find_score(result, setting, task, Json::object());
    if (score == nullptr) continue;
    ++tasks;
    point.quality += score->at("mean").get<double>();
    const double bytes = number_or(*score, "bytes_mean", -1);
    if (bytes >= 0) {
      ++with_bytes;
      point.bytes += bytes;
    }
    if (!score->at("low").is_null()) point.low = score->at("low").get<double>();
    if (!score->at("high").is_null()) point.high = score->at("high").get<double>();
  }
  if (with_bytes == 0) return std::nullopt;
  point.quality /= tasks;
  point.bytes /= with_bytes;
  if (tasks > 1) point.low = point.high = std::nullopt;
  return point;
}

}  // namespace

const std::string& kind_of(const Json& result) {
  return result.at("kind").get_ref<const std::string&>();
}

bool has_scores(const Json& result) {
  const std::string& kind = kind_of(result);
  return kind != "fidelity" && kind != "premise" && kind != "neighbours";
}

std::string words_text(const Json& words) {
  if (words.is_string()) return words.get<std::string>();
  std::string text;
  for (const Json& word : words) {
    text += (text.empty() ? "" : " ") + word.get_ref<const std::string&>();
  }
  return text;
}

std::optional<std::string> flag_value(std::string_view flags, std::string_view flag) {
  const auto words = split_words(flags);
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) {
      value = words[i + 1];
    } else if (words[i].size() > flag.size() && words[i].compare(0, flag.size(), flag) == 0 &&
               words[i][flag.size()] == '=') {
      value = words[i].substr(flag.size() + 1);
    }
  }
  return value;
}

std::optional<double> flag_number(std::string_view flags, std::string_view flag) {
  const auto text = flag_value(flags, flag);
  if (!text || text->empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<std::string> setting_names(const Json& result) {
  std::vector<std::string> names;
  for (const Json& setting : result.at("settings")) names.push_back(setting.at("name"));
  return names;
}

const std::string& reference_of(const Json& result) {
  return result.at("settings")[0].at("name").get_ref<const std::string&>();
}

std::string flags_of(const Json& result, std::string_view name) {
  for (const Json& setting : result.at("settings")) {
    if (setting.at("name").get_ref<const std::string&>() == name) {
      return words_text(setting.at("flags"));
    }
  }
  return "";
}

std::string policy_of(const Json& result, std::string_view name) {
  if (name == reference_of(result)) return "full";
  return flag_value(flags_of(result, name), "--kv-policy").value_or("none");
}

std::vector<std::string> tasks_of(const Json& result) {
  std::vector<std::string> tasks;
  for (const Json& score : result.at("scores")) {
    const auto& task = score.at("task").get_ref<const std::string&>();
    if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) tasks.push_back(task);
  }
  return tasks;
}

const Json* find_score(const Json& result, std::string_view setting, std::string_view task,
                       const Json& tags) {
  for (const Json& score : result.at("scores")) {
    if (score.at("setting").get_ref<const std::string&>() == setting &&
        score.at("task").get_ref<const std::string&>() == task && score.at("tags") == tags) {
      return score.at("mean").is_null() ? nullptr : &score;
    }
  }
  return nullptr;
}

std::string tags_text(const Json& tags) {
  std::string text;
  for (const auto& [name, value] : tags.items()) {
    text += text.empty() ? "" : ", ";
    text += name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

double number_or(const Json& object, const char* name, double missing) {
  const auto found = object.find(name);
  return found == object.end() || !found->is_number() ? missing : found->get<double>();
}

std::vector<MemoryPoint> memory_points(const Json& result) {
  std::vector<MemoryPoint> points;
  if (kind_of(result) == "fidelity") {
    for (const Json& set : result.at("sets")) {
      MemoryPoint point;
      point.setting = set.at("name");
      point.bytes = set.at("kv").at("bytes_mean");
      point.quality = set.at("kl").at("mean");
      if (set.at("kl").contains("low")) point.low = set.at("kl").at("low").get<double>();
      if (set.at("kl").contains("high")) point.high = set.at("kl").at("high").get<double>();
      points.push_back(std::move(point));
    }
  } else if (has_scores(result)) {
    for (const std::string& name : setting_names(result)) {
      if (name == reference_of(result)) continue;
      if (const auto point = score_point(result, name)) points.push_back(*point);
    }
  }
  return points;
}

std::optional<MemoryPoint> reference_point(const Json& result) {
  if (has_scores(result)) return score_point(result, reference_of(result));
  if (kind_of(result) != "fidelity" || result.at("sets").empty()) return std::nullopt;
  MemoryPoint point;
  point.setting = reference_of(result);
  point.bytes = result.at("sets")[0].at("kv").at("bytes_full");
  return point;
}

}  // namespace kvasir::eval
