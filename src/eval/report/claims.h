// The published claims of CONF-KV (arXiv 2605.24786v1), each judged by what results measured.
//
// Which result answers a claim is found by what is in it, never by its file's name. Every measured
// number comes from a result. Requires: results have passed check_result. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace kvasir::eval {

enum class Verdict {
  kReproduced,
  kNotReproduced,
  kUntestable,  ///< not with these models or this machine
  kMissing,     ///< no result here answers it
};

struct Claim {
  std::string text;       ///< what is claimed
  std::string published;  ///< its figures
  Verdict verdict = Verdict::kMissing;
  std::string measured;  ///< the figures of a result, and whose; empty without one
  std::string reason;    ///< by which rule it was judged, or why it cannot be
};

/// "reproduced", "not reproduced", "not testable here", "no result here".
const char* verdict_text(Verdict verdict);

/// All claims in a fixed order; the premise once for each model that has a result.
std::vector<Claim> judge_claims(std::span<const nlohmann::ordered_json> results);

}  // namespace kvasir::eval
