// What the papers print that these runs do not reproduce, and why.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace kvasir::eval {

/// Plain text for ReportOptions::not_reproduced, an empty line between paragraphs: what is in
/// doubt from the papers' own numbers alone, then what `results` measured otherwise (claims.h).
std::string not_reproduced(std::span<const nlohmann::ordered_json> results);

}  // namespace kvasir::eval
