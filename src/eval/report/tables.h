// The tables of a result as HTML; every text in them is escaped.
//
// Requires: the result has passed check_result. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kvasir::eval {

/// The settings with their policies and flags.
std::string settings_table(const nlohmann::ordered_json& result);

/// What was measured, for the kind of the result: one or several tables with headings.
std::string measures_tables(const nlohmann::ordered_json& result);

}  // namespace kvasir::eval
