// `kvasir eval report` and `kvasir eval compare`: finished results for people.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvasir::eval {

/// Writes the page of some results to a new file. Fails with one line; an existing file is kept.
Result<void> write_page(const std::string& path, std::span<const nlohmann::ordered_json> results,
                        const std::vector<std::string>& names);

/// Each runs its command on the words after its name; returns the exit code.
int report_command(const std::vector<std::string>& args);
int compare_command(const std::vector<std::string>& args);

}  // namespace kvasir::eval
