// SnapKV's ranker, which PyramidKV shares; snapkv.cc has the formula.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/policy.h"

namespace kvasir {

/// Queries of the observed window, and newest tokens kept with it.
inline constexpr int32_t kSnapWindow = 32;

std::unique_ptr<Ranker> snapkv_ranker(HeadReduction heads);

}  // namespace kvasir
