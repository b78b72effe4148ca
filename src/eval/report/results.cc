#include "eval/report/results.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <vector>

#include "eval/report/field_check.h"
#include "eval/report/neighbours_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;
using Type = FieldType;

constexpr auto kOrNull = FieldRule::Presence::kOrNull;
constexpr auto kOptional = FieldRule::Presence::kOptional;

constexpr std::array kKinds = {"fidelity", "needle", "ruler",   "kvretrieval", "manyshot",
                               "dataset",  "agent",  "premise", "neighbours"};
constexpr std::array kTimes = {"total",      "attention",  "append", "metadata",
                               "compaction", "confidence", "rest"};
constexpr size_t kMostBins = 1000;
// An object keeps its fields in a list that is searched from the front, and dumping nests; nothing
// that the schema knows comes near these.
constexpr size_t kMostFields = 1000;
constexpr size_t kDeepest = 32;

std::string joined(const auto& names) {
  std::string all;
  for (const char* name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

using Names = std::set<std::string, std::less<>>;

bool is_known(FieldCheck& check, const Names& settings, const Json& item, const std::string& path,
              const char* name) {
  const auto& value = item.at(name).get_ref<const std::string&>();
  return settings.contains(value) ||
         check.complain(child_path(path, name), describe_value(item.at(name)),
                        "the name of one of settings");
}

bool check_head(FieldCheck& check, const Json& result, Names& names) {
  if (!check.object(result, "",
                    {{"schema", Type::kCount},
                     {"kind", Type::kName},
                     {"kvasir", Type::kText},
                     {"command", Type::kWords},
                     {"model", Type::kObject},
                     {"machine", Type::kObject},
                     {"began", Type::kText},
                     {"seconds", Type::kAmount},
                     {"methods", Type::kCount, kOptional},
                     {"settings", Type::kArray}})) {
    return false;
  }
  if (result.at("schema") != kResultSchema) {
    return check.complain("schema", result.at("schema").dump(), std::to_string(kResultSchema));
  }
  const auto& kind = result.at("kind").get_ref<const std::string&>();
  if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) {
    return check.complain("kind", describe_value(result.at("kind")), joined(kKinds));
  }
  check.object(result.at("model"), "model",
               {{"name", Type::kText},
                {"file", Type::kText, kOptional},
                {"description", Type::kText, kOptional},
                {"bytes", Type::kCount, kOptional}});
  check.object(result.at("machine"), "machine",
               {{"cpu", Type::kText},
                {"threads", Type::kCount, kOptional},
                {"kernels", Type::kText, kOptional}});
  const Json& settings = result.at("settings");
  if (check.ok() && settings.empty()) return check.complain("settings", "none", "at least one");
  check.objects(result, "", "settings", {{"name", Type::kName}, {"flags", Type::kWords}});
  for (size_t i = 0; check.ok() && i < settings.size(); ++i) {
    if (!names.insert(settings[i].at("name")).second) {
      check.complain(item_path("settings", i) + ".name", describe_value(settings[i].at("name")),
                     "a name that is not there yet");
    }
  }
  return check.ok();
}

bool check_confidence(FieldCheck& check, const Json& confidence, const std::string& path) {
  return check.object(confidence, path,
                      {{"mean", Type::kNumber, kOrNull},
                       {"above_tau", Type::kShare, kOrNull},
                       {"tau", Type::kShare, kOrNull},
                       {"histogram", Type::kArray}}) &&
         check.counts(confidence.at("histogram"), path + ".histogram", kMostBins);
}

bool check_set(FieldCheck& check, const Json& set, const std::string& path) {
  check.object(set.at("kl"), path + ".kl",
               {{"mean", Type::kNumber},
                {"median", Type::kNumber},
                {"p99", Type::kNumber},
                {"low", Type::kNumber, kOptional},
                {"high", Type::kNumber, kOptional},
                {"exact", Type::kTruth}});
  check.object(set.at("kv"), path + ".kv",
               {{"flags", Type::kWords},
                {"bytes_per_token", Type::kAmount},
                {"bytes_peak", Type::kAmount},
                {"bytes_mean", Type::kAmount},
                {"bytes_full", Type::kAmount},
                {"live_mean", Type::kAmount},
                {"evicted", Type::kAmount}});
  check.objects(set, path, "curve",
                {{"position", Type::kCount},
                 {"tokens", Type::kCount},
                 {"kl", Type::kNumber, kOrNull},
                 {"ppl", Type::kNumber, kOrNull},
                 {"ppl_reference", Type::kNumber, kOrNull},
                 {"live", Type::kAmount},
                 {"bytes", Type::kAmount}});
  check.objects(set, path, "trace",
                {{"position", Type::kCount},
                 {"live", Type::kAmount},
                 {"bytes", Type::kAmount},
                 {"c", Type::kNumber, kOrNull}});
  if (set.contains("ppl_ratio")) {
    check.object(set.at("ppl_ratio"), path + ".ppl_ratio",
                 {{"mean", Type::kAmount}, {"low", Type::kAmount}, {"high", Type::kAmount}});
  }
  const auto confidence = set.find("confidence");
  if (confidence != set.end() && !confidence->is_null()) {
    check_confidence(check, *confidence, path + ".confidence");
  }
  const std::string times = path + ".step_ms";
  for (const char* name : kTimes) {
    if (!check.object(set.at("step_ms"), times, {{name, Type::kObject}})) return false;
    check.object(set.at("step_ms").at(name), child_path(times, name),
                 {{"p50", Type::kNumber}, {"p95", Type::kNumber}, {"mean", Type::kNumber}});
  }
  return check.ok();
}

void check_reference(FieldCheck& check, const Json& reference) {
  if (!check.object(
          reference, "reference",
          {{"ppl", Type::kAmount}, {"bytes_end", Type::kAmount}, {"step_ms", Type::kObject}}) ||
      !check.object(reference.at("step_ms"), "reference.step_ms", {{"total", Type::kObject}})) {
    return;
  }
  check.object(reference.at("step_ms").at("total"), "reference.step_ms.total",
               {{"p50", Type::kNumber}, {"p95", Type::kNumber}, {"mean", Type::kNumber}});
}

void check_fidelity(FieldCheck& check, const Json& result, const Names& settings) {
  if (!check.object(result, "",
                    {{"text", Type::kObject},
                     {"floor", Type::kObject},
                     {"reference", Type::kObject, kOptional},
                     {"sets", Type::kArray}})) {
    return;
  }
  if (result.contains("reference")) check_reference(check, result.at("reference"));
  check.object(result.at("text"), "text",
               {{"name", Type::kText}, {"tokens", Type::kCount}, {"prefix", Type::kCount}});
  check.object(result.at("floor"), "floor", {{"kl", Type::kAmount}});
  check.objects(result, "", "sets",
                {{"name", Type::kName},
                 {"kl", Type::kObject},
                 {"same_top", Type::kShare},
                 {"ppl", Type::kAmount},
                 {"ppl_reference", Type::kAmount},
                 {"ppl_ratio", Type::kObject, kOptional},
                 {"tokens", Type::kCount},
                 {"kv", Type::kObject},
                 {"curve", Type::kArray},
                 {"trace", Type::kArray},
                 {"confidence", Type::kObject, kOptional},
                 {"step_ms", Type::kObject}});
  for (size_t i = 0; check.ok() && i < result.at("sets").size(); ++i) {
    const std::string path = item_path("sets", i);
    const Json& set = result.at("sets")[i];
    if (!is_known(check, settings, set, path, "name") || !check_set(check, set, path)) return;
  }
}

bool check_sample(FieldCheck& check, const Json& sample, const std::string& path) {
  const auto& status = sample.at("status").get_ref<const std::string&>();
  if (status != "ok" && status != "error" && status != "skipped") {
    return check.complain(path + ".status", describe_value(sample.at("status")),
                          "ok, error or skipped");
  }
  if (status == "ok") return check.object(sample, path, {{"score", Type::kShare}});
  return true;
}

bool check_tags(FieldCheck& check, const Json& tags, const std::string& path) {
  for (const auto& [name, value] : tags.items()) {
    if (value.is_structured()) {
      return check.complain(child_path(path, name), describe_value(value), "a number or a text");
    }
  }
  return true;
}

void check_list(FieldCheck& check, const Json& result, const Names& settings, const char* list) {
  for (size_t i = 0; check.ok() && i < result.at(list).size(); ++i) {
    const Json& item = result.at(list)[i];
    const std::string path = item_path(list, i);
    if (!is_known(check, settings, item, path, "setting")) return;
    if (item.contains("tags") && !check_tags(check, item.at("tags"), path + ".tags")) return;
    if (item.contains("status") && !check_sample(check, item, path)) return;
  }
}

void check_samples(FieldCheck& check, const Json& result, const Names& settings) {
  if (!check.object(
          result, "",
          {{"samples", Type::kArray}, {"scores", Type::kArray}, {"flips", Type::kArray}})) {
    return;
  }
  check.objects(result, "", "samples",
                {{"setting", Type::kName},
                 {"task", Type::kText},
                 {"id", Type::kText},
                 {"question", Type::kText},
                 {"tags", Type::kObject},
                 {"status", Type::kText},
                 {"score", Type::kShare, kOptional},
                 {"error", Type::kText, kOptional},
                 {"n_context", Type::kCount, kOptional},
                 {"bytes", Type::kAmount, kOptional},
                 {"bytes_peak", Type::kAmount, kOptional},
                 {"turns", Type::kCount, kOptional},
                 {"facts_needed", Type::kFacts, kOptional},
                 {"facts_lost", Type::kFacts, kOptional}});
  check.objects(result, "", "scores",
                {{"setting", Type::kName},
                 {"task", Type::kText},
                 {"tags", Type::kObject},
                 {"n", Type::kCount},
                 {"mean", Type::kShare, kOrNull},
                 {"low", Type::kShare, kOrNull},
                 {"high", Type::kShare, kOrNull},
                 {"bytes_mean", Type::kAmount, kOptional}});
  check.objects(result, "", "flips",
                {{"setting", Type::kName},
                 {"task", Type::kText},
                 {"n", Type::kCount},
                 {"to_wrong", Type::kCount},
                 {"to_right", Type::kCount}});
  for (const char* list : {"samples", "scores", "flips"}) check_list(check, result, settings, list);
}

void check_premise(FieldCheck& check, const Json& result) {
  if (!check.object(result, "",
                    {{"text", Type::kObject, kOptional},
                     {"hidden", Type::kCount},
                     {"points", Type::kArray},
                     {"correlations", Type::kArray},
                     {"confidence", Type::kArray}})) {
    return;
  }
  check.objects(result, "", "points",
                {{"position", Type::kCount},
                 {"kl", Type::kNumber, kOrNull},
                 {"c", Type::kNumber, kOrNull},
                 {"entropy", Type::kNumber, kOptional},
                 {"p1", Type::kNumber, kOptional},
                 {"margin", Type::kNumber, kOptional}});
  check.objects(result, "", "correlations",
                {{"signal", Type::kName},
                 {"temperature", Type::kAmount, kOptional},
                 {"n", Type::kCount},
                 {"pearson", Type::kSigned, kOrNull},
                 {"low", Type::kSigned, kOrNull},
                 {"high", Type::kSigned, kOrNull},
                 {"spearman", Type::kSigned, kOptional}});
  for (size_t i = 0; check.ok() && i < result.at("confidence").size(); ++i) {
    const std::string path = item_path("confidence", i);
    const Json& item = result.at("confidence")[i];
    if (!check.object(item, path, {{"temperature", Type::kAmount}})) return;
    check_confidence(check, item, path);
  }
}

}  // namespace

Result<void> check_result(const Json& result, std::string_view name) {
  FieldCheck check(name);
  Names settings;
  if (!check_head(check, result, settings)) return check.result();
  const auto& kind = result.at("kind").get_ref<const std::string&>();
  if (kind == "fidelity") {
    check_fidelity(check, result, settings);
  } else if (kind == "premise") {
    check_premise(check, result);
  } else if (kind == "neighbours") {
    check_neighbours(check, result);
  } else {
    check_samples(check, result, settings);
  }
  return check.result();
}

Result<Json> parse_result(std::string_view text, std::string_view name) {
  const std::string head = std::string(name) + ": ";
  if (text.size() > kMaxResultBytes) {
    return Error{head + "found " + std::to_string(text.size()) + " bytes, expected at most " +
                 std::to_string(kMaxResultBytes)};
  }
  bool too_deep = false;
  bool too_wide = false;
  std::vector<size_t> fields(kDeepest + 2);
  const auto keep = [&](int depth, Json::parse_event_t event, const Json&) {
    const auto at = static_cast<size_t>(depth);
    if (at > kDeepest) {
      too_deep = true;
      return false;
    }
    if (event == Json::parse_event_t::object_start) fields[at + 1] = 0;
    if (event == Json::parse_event_t::key && ++fields[at] > kMostFields) {
      too_wide = true;
      return false;
    }
    return true;
  };
  Json result = Json::parse(text, keep, false);
  if (too_deep) {
    return Error{head + "found more than " + std::to_string(kDeepest) + " levels, expected fewer"};
  }
  if (too_wide) {
    return Error{head + "found an object of more than " + std::to_string(kMostFields) +
                 " fields, expected fewer"};
  }
  if (result.is_discarded()) return Error{head + "found no JSON, or only the beginning of it"};
  if (auto checked = check_result(result, name); !checked) return Error{checked.error()};
  return result;
}

Result<Json> read_result(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<std::streamoff>(file.tellg()) : std::streamoff{-1};
  if (size < 0) return Error{path + ": cannot be read; expected a file of `kvasir eval --json`"};
  if (static_cast<uint64_t>(size) > kMaxResultBytes) {
    return Error{path + ": found " + std::to_string(size) + " bytes, expected at most " +
                 std::to_string(kMaxResultBytes)};
  }
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return Error{path + ": cannot be read to its end"};
  return parse_result(text, path);
}

}  // namespace kvasir::eval
