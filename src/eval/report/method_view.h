// Settings of a checked result by the method that they stand for, and its name in the papers.
//
// Requires everywhere: the result has passed check_result. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace kvasir::eval {

/// A method as its flags name it.
struct Method {
  std::string policy = "none";
  std::string format = "f16";
  bool pyramid = false;   ///< --kv-pyramid
  bool schedule = false;  ///< --kv-schedule: the budgets of a recorded run

  bool operator==(const Method&) const = default;
};

Method method_of(const std::string& flags);

/// The name of the first setting but the reference with this method, "" if there is none.
std::string setting_of(const nlohmann::ordered_json& result, const Method& method);
/// The first set of a fidelity result with this method, or null.
const nlohmann::ordered_json* find_set(const nlohmann::ordered_json& result, const Method& method);

/// What the papers call a method: "StreamingLLM", "CONF-KV-L"; "" for what has no name there.
std::string paper_name(const Method& method);

/// The first result of this kind with --methods, else the first of this kind, else null.
const nlohmann::ordered_json* first_of_kind(std::span<const nlohmann::ordered_json> results,
                                            std::string_view kind);
/// The first fidelity result of --methods, or null.
const nlohmann::ordered_json* main_fidelity(std::span<const nlohmann::ordered_json> results);

/// Model, text and amount of a result: "smollm2-f16, bible, 1,024 rows".
std::string source_text(const nlohmann::ordered_json& result);

}  // namespace kvasir::eval
