#include "eval/neighbours/distances.h"

#include <algorithm>
#include <numeric>

namespace kvasir::eval {

void Distances::add(int32_t distance) {
  const auto bin = std::lower_bound(kDistanceEnds.begin(), kDistanceEnds.end(), distance);
  ++counts[static_cast<size_t>(bin - kDistanceEnds.begin())];
}

int64_t Distances::total() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

double Distances::far() const {
  const auto end = std::find(kDistanceEnds.begin(), kDistanceEnds.end(), kFar);
  const int64_t near = std::accumulate(
      counts.begin(), counts.begin() + (end - kDistanceEnds.begin()) + 1, int64_t{0});
  const int64_t all = total();
  return all == 0 ? 0 : static_cast<double>(all - near) / static_cast<double>(all);
}

Distances distances_of(std::span<const int32_t> found) {
  Distances distances;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] >= 0) distances.add(static_cast<int32_t>(i) - found[i]);
  }
  return distances;
}

Distances distances_of(const Parted& parted, const Chosen& chosen, int32_t k) {
  Distances distances;
  for (size_t i = 0; i < parted.others.size(); ++i) {
    for (const int32_t token : chosen.of(i).first(static_cast<size_t>(std::min(k, chosen.k)))) {
      if (token >= 0) distances.add(parted.others[i] - token);
    }
  }
  return distances;
}

double far_by_chance(int32_t n_tokens) {
  double sum = 0;
  for (int32_t i = 1; i < n_tokens; ++i) sum += std::max(0.0, static_cast<double>(i - kFar) / i);
  return n_tokens < 2 ? 0 : sum / (n_tokens - 1);
}

double far_by_chance(const Parted& parted) {
  double sum = 0;
  for (size_t i = 0; i < parted.others.size(); ++i) {
    const auto first = parted.references.begin();
    const auto far = std::lower_bound(first, first + parted.n_visible[i], parted.others[i] - kFar);
    sum += static_cast<double>(far - first) / parted.n_visible[i];
  }
  return parted.others.empty() ? 0 : sum / static_cast<double>(parted.others.size());
}

}  // namespace kvasir::eval
