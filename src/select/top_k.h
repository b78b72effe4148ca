// The k largest of many numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir {

/// Puts the indices of the k largest scores into `chosen`, ascending. On ties the higher index (the
/// newer token) is taken; NaN counts as the least. Linear time: three passes of a radix selection
/// find the k-th score, a fourth takes what is above it. Requires: 0 <= k <= scores.size().
void top_k(std::span<const float> scores, int32_t k, std::vector<int32_t>& chosen);

}  // namespace kvasir
