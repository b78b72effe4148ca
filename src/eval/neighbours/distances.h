// How far away, in tokens, what was found lies: a histogram, and the share beyond 16 tokens, which
// is what DeltaKV counts (arXiv 2602.08005: more than 60 % of nearest tokens lie further). Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "eval/neighbours/references.h"

namespace kvasir::eval {

inline constexpr int32_t kFar = 16;
/// Upper ends of all bins but the last, which has none; kFar is one of them.
inline constexpr std::array<int32_t, 5> kDistanceEnds = {4, kFar, 64, 256, 1024};

struct Distances {
  std::array<int64_t, kDistanceEnds.size() + 1> counts{};

  void add(int32_t distance);
  int64_t total() const;
  /// Share of distances above kFar; 0 of none.
  double far() const;
};

/// Of what each token found: found[i] < i, or -1.
Distances distances_of(std::span<const int32_t> found);
/// Of the first `k` that each of the others has.
Distances distances_of(const Parted& parted, const Chosen& chosen, int32_t k);

/// The share beyond kFar if each token drew among all earlier ones (the others: among the
/// references before them) without looking.
double far_by_chance(int32_t n_tokens);
double far_by_chance(const Parted& parted);

}  // namespace kvasir::eval
