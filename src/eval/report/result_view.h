// Questions about a checked result that the page, its losses and the comparison ask.
//
// Requires everywhere: the result has passed check_result. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::eval {

/// "fidelity", "needle", ...
const std::string& kind_of(const nlohmann::ordered_json& result);
/// Whether it holds samples with scores: every kind but fidelity, premise and neighbours.
bool has_scores(const nlohmann::ordered_json& result);

/// A text, or an array of texts with spaces between.
std::string words_text(const nlohmann::ordered_json& words);
/// The value behind a flag, as "--kv-x V" or "--kv-x=V"; the last one counts.
std::optional<std::string> flag_value(std::string_view flags, std::string_view flag);
/// The same as a number; none if it is none.
std::optional<double> flag_number(std::string_view flags, std::string_view flag);

/// The names of settings, the reference first.
std::vector<std::string> setting_names(const nlohmann::ordered_json& result);
const std::string& reference_of(const nlohmann::ordered_json& result);
/// The flags of the setting `name`, "" if there is none of that name.
std::string flags_of(const nlohmann::ordered_json& result, std::string_view name);
/// The policy of its flags; "full" for the reference, "none" where the flags name none.
std::string policy_of(const nlohmann::ordered_json& result, std::string_view name);

/// The tasks of scores, in order.
std::vector<std::string> tasks_of(const nlohmann::ordered_json& result);
/// The score of a setting in a task, all of it or the group of just these tags; null if there is
/// none or its mean is null.
const nlohmann::ordered_json* find_score(const nlohmann::ordered_json& result,
                                         std::string_view setting, std::string_view task,
                                         const nlohmann::ordered_json& tags);
/// "length 4096, depth 50".
std::string tags_text(const nlohmann::ordered_json& tags);

/// A field as a number, `missing` where it is absent or null.
double number_or(const nlohmann::ordered_json& object, const char* name, double missing);

/// One setting between memory and quality.
struct MemoryPoint {
  std::string setting;
  double bytes = 0;    ///< fidelity: mean over the steps; else mean after compression
  double quality = 0;  ///< fidelity: mean KL; else the mean of the scores of all tasks
  std::optional<double> low;
  std::optional<double> high;  ///< of the interval; only where there is one task
};

/// One for each setting but the reference that has both.
std::vector<MemoryPoint> memory_points(const nlohmann::ordered_json& result);
/// The reference itself: with KL 0 and the bytes of the full cache. None if the file has no bytes.
std::optional<MemoryPoint> reference_point(const nlohmann::ordered_json& result);

}  // namespace kvasir::eval
