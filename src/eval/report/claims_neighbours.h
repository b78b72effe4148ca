// The observations of DeltaKV (arXiv 2602.08005), each judged by a result of `kvasir eval
// neighbours`, with the controls that say what they are worth. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "eval/report/claims.h"

namespace kvasir::eval {

/// In a fixed order. Requires: a result of that kind that has passed check_result.
std::vector<Claim> neighbours_claims(const nlohmann::ordered_json& result);

}  // namespace kvasir::eval
