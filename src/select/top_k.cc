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
  constexpr std::array<Digit, 3> kDigits = {Digit{21, 11}, Digit{10, 11}, Digit{0, 10}};
  uint32_t prefix = 0, known = 0;  // bits of the k-th key so far, and which they are
  auto wanted = static_cast<size_t>(k);
  std::array<uint32_t, 2048> counts{};
  const auto find_digit = [&](const Digit& digit) {
    const uint32_t mask = (1U << digit.bits) - 1;
    uint32_t value = mask;
    while (counts[value] < wanted) wanted -= counts[value--];
    prefix |= value << digit.shift;
    known |= mask << digit.shift;
    counts.fill(0);
  };
  for (const float score : scores) ++counts[key_of(score) >> kDigits[0].shift];
  find_digit(kDigits[0]);
  // Those above the k-th, and those that may be it: few are looked at again.
  for (size_t i = 0; i < scores.size(); ++i) {
    if (key_of(scores[i]) >= prefix) chosen.push_back(static_cast<int32_t>(i));
  }
  const auto key_at = [&](int32_t i) { return key_of(scores[static_cast<size_t>(i)]); };
  for (size_t d = 1; d < kDigits.size(); ++d) {
    for (const int32_t i : chosen) {
      const uint32_t key = key_at(i);
      if ((key & known) == prefix)
        ++counts[(key >> kDigits.at(d).shift) & ((1U << kDigits.at(d).bits) - 1)];
    }
    find_digit(kDigits.at(d));
  }
  // `wanted` of those that equal the k-th: the newest.
  const auto equal = static_cast<size_t>(
      std::count_if(chosen.begin(), chosen.end(), [&](int32_t i) { return key_at(i) == prefix; }));
  size_t passed = 0;
  const auto end = std::remove_if(chosen.begin(), chosen.end(), [&](int32_t i) {
    const uint32_t key = key_at(i);
    return key < prefix || (key == prefix && passed++ < equal - wanted);
  });
  chosen.erase(end, chosen.end());
  assert(chosen.size() == static_cast<size_t>(k));
}

}  // namespace kvasir
