// Result files as one page of Markdown: the main table, where CONF-KV loses, and each published
// claim beside what was measured.
//
// Pure: values in, text out. Every number comes from a result.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvasir::eval {

/// The first line of each page that was written here; a file that begins with it may be replaced.
inline constexpr const char* kMarkdownMark =
    "<!-- Written by `kvasir eval report --markdown`: change the results, not this page. -->";

/// The page. The main table is of the first fidelity result of --methods, else of the first
/// fidelity result; needles of the first needle result stand beside it. `names` are those of the
/// files. Fails with one line if there is no result or one that check_result refuses.
Result<std::string> to_markdown(std::span<const nlohmann::ordered_json> results,
                                const std::vector<std::string>& names);

}  // namespace kvasir::eval
