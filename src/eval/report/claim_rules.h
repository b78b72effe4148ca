// What the files that judge claims share; claims.h is what others use.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "eval/report/claims.h"

namespace kvasir::eval {

inline constexpr double kNear = 0.9;  ///< share of a published ratio that is near enough

Verdict verdict_of(bool holds);

/// What was measured, and behind it of which result.
std::string behind(const std::string& measured, const nlohmann::ordered_json& result);

/// Appends the claims that fidelity results answer.
void add_fidelity_claims(std::span<const nlohmann::ordered_json> results,
                         std::vector<Claim>& claims);

}  // namespace kvasir::eval
