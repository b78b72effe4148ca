#include "select/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace kvasir {
namespace {

// Ascends as the score does.
uint32_t key_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 becomes 0
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0;
  return (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace

void top_k(std::span<const float> scores, int32_t k, std::vector<int32_t>& chosen) {
  assert(k >= 0 && static_cast<size_t>(k) <= scores.size());
  chosen.clear();
  if (k == 0) return;
  struct Digit {
    uint32_t shift, bits;
  };
  constexpr Digit kDigits[] = {{21, 11}, {10, 11}, {0, 10}};
  uint32_t prefix = 0, known = 0;  // bits of the k-th key so far, and which they are
  auto wanted = static_cast<size_t>(k);
  std::array<uint32_t, 2048> counts{};
  for (const Digit& digit : kDigits) {
    const uint32_t mask = (1U << digit.bits) - 1;
    counts.fill(0);
    for (const float score : scores) {
      const uint32_t key = key_of(score);
      if ((key & known) == prefix) ++counts[(key >> digit.shift) & mask];
    }
    uint32_t value = mask;
    while (counts[value] < wanted) wanted -= counts[value--];
    prefix |= value << digit.shift;
    known |= mask << digit.shift;
  }
  // `wanted` of those that equal the k-th: the newest.
  size_t equal = 0;
  for (const float score : scores) equal += key_of(score) == prefix ? 1 : 0;
  size_t passed = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint32_t key = key_of(scores[i]);
    if (key < prefix || (key == prefix && passed++ < equal - wanted)) continue;
    chosen.push_back(static_cast<int32_t>(i));
  }
  assert(chosen.size() == static_cast<size_t>(k));
}

}  // namespace kvasir
