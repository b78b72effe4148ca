#include "eval/metrics/interval.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace kvasir::eval {
namespace {

constexpr double kQuantile = 1.959963984540054;  // of the normal distribution at 97.5 %
constexpr size_t kDraws = 2000;
constexpr size_t kBlock = 32;          // longest run of values that are drawn together
constexpr size_t kTail = kDraws / 40;  // draws outside the interval, on each side

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A number below `limit`, from the upper half of the generator's bits.
size_t below(uint64_t limit, std::mt19937_64& random) {
  return static_cast<size_t>((random() >> 32U) * limit >> 32U);
}

}  // namespace

Interval wilson_interval(int64_t right, int64_t count) {
  assert(count > 0 && right >= 0 && right <= count);
  const auto n = static_cast<double>(count);
  const double share = static_cast<double>(right) / n;
  const double square = kQuantile * kQuantile;
  const double centre = (share + square / (2 * n)) / (1 + square / n);
  const double half =
      kQuantile / (1 + square / n) * std::sqrt(share * (1 - share) / n + square / (4 * n * n));
  // At the ends one bound is the share itself; rounding must not take it past 0 or 1.
  return {share, right == 0 ? 0 : centre - half, right == count ? 1 : centre + half};
}

Interval bootstrap_interval(std::span<const double> scores, uint64_t seed) {
  assert(!scores.empty() && scores.size() < uint64_t{1} << 32U);
  std::mt19937_64 random(seed);
  std::vector<double> means(kDraws);
  for (double& drawn : means) {
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) sum += scores[below(scores.size(), random)];
    drawn = sum / static_cast<double>(scores.size());
  }
  std::sort(means.begin(), means.end());
  return {mean(scores), means[kTail], means[kDraws - 1 - kTail]};
}

Interval block_bootstrap_interval(std::span<const double> values, uint64_t seed) {
  assert(!values.empty() && values.size() < uint64_t{1} << 32U);
  const size_t n = values.size();
  const size_t block = std::clamp<size_t>(n / 16, 1, kBlock);
  // sums[i]: of the first i values of two rounds, so that a run may go past the end.
  std::vector<double> sums(n + block + 1);
  for (size_t i = 0; i < n + block; ++i) sums[i + 1] = sums[i] + values[i % n];
  std::mt19937_64 random(seed);
  std::vector<double> means(kDraws);
  for (double& drawn : means) {
    double sum = 0;
    for (size_t taken = 0; taken < n; taken += block) {
      const size_t first = below(n, random);
      sum += sums[first + std::min(block, n - taken)] - sums[first];
    }
    drawn = sum / static_cast<double>(n);
  }
  std::sort(means.begin(), means.end());
  return {mean(values), means[kTail], means[kDraws - 1 - kTail]};
}

Interval mean_interval(std::span<const double> scores, uint64_t seed) {
  const bool binary = std::all_of(scores.begin(), scores.end(),
                                  [](double score) { return score == 0 || score == 1; });
  if (!binary) return bootstrap_interval(scores, seed);
  return wilson_interval(std::count(scores.begin(), scores.end(), 1.0),
                         static_cast<int64_t>(scores.size()));
}

}  // namespace kvasir::eval
