// Result files as one HTML page that loads nothing: figures, tables, and where the settings lose.
//
// Pure: values in, text out. The page draws with Vega, which is in it; its policy forbids every
// connection. Each text that comes from a result is escaped.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvasir::eval {

struct ReportOptions {
  std::string title = "Kvasir: evaluation";
  std::vector<std::string> names;  ///< of the files, for errors and headings; may be shorter
  /// Plain text for "Published numbers that this run does not reproduce"; an empty line parts
  /// paragraphs. Empty: no such section.
  std::string not_reproduced;
};

/// The page. Fails with one line if there is no result or one that check_result refuses.
Result<std::string> to_html(std::span<const nlohmann::ordered_json> results,
                            const ReportOptions& options = {});

}  // namespace kvasir::eval
