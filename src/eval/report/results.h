// One result file of `kvasir eval`: read, and checked against docs/evaluation-schema.md.
//
// Knows JSON only. What has passed may be read without looking again: every required field is
// there, of its type and in its range; what the schema allows to be absent or null may be.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvasir::eval {

constexpr int kResultSchema = 1;
constexpr size_t kMaxResultBytes = size_t{256} << 20;

/// The result in `text`. Fails with "NAME: PATH: found VALUE, expected WHAT", PATH as in
/// "sets[0].kl.mean".
Result<nlohmann::ordered_json> parse_result(std::string_view text, std::string_view name);

/// The result in the file `path`, of at most kMaxResultBytes.
Result<nlohmann::ordered_json> read_result(const std::string& path);

/// Whether `result` is one; the error as of parse_result.
Result<void> check_result(const nlohmann::ordered_json& result, std::string_view name);

}  // namespace kvasir::eval
