#include "select/full_layer_choice.h"

#include <algorithm>
#include <cassert>

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

int64_t common_of(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  int64_t n = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) ++n;
    const bool advance_a = a[i] <= b[j], advance_b = b[j] <= a[i];
    i += advance_a ? 1 : 0;
    j += advance_b ? 1 : 0;
  }
  return n;
}

}  // namespace

LayerOverlap::LayerOverlap(int32_t n_layers)
    : n_layers_(n_layers), common_(z(n_layers) * z(n_layers)) {}

void LayerOverlap::add(std::span<const std::vector<int32_t>> chosen) {
  assert(chosen.size() == z(n_layers_));
  if (chosen.empty()) return;
  n_chosen_ += static_cast<int64_t>(chosen.front().size());
  for (int32_t a = 0; a < n_layers_; ++a) {
    assert(chosen[z(a)].size() == chosen.front().size());
    for (int32_t b = a; b < n_layers_; ++b) {
      const int64_t n = common_of(chosen[z(a)], chosen[z(b)]);
      common_[index(a, b)] += n;
      if (a != b) common_[index(b, a)] += n;
    }
  }
}

FullLayers rate_full_layers(const LayerOverlap& overlap, std::vector<int32_t> layers) {
  assert(!layers.empty() && layers.front() == 0 && layers.back() < overlap.n_layers());
  FullLayers rated;
  for (size_t i = 0; i < layers.size(); ++i) {
    const int32_t end = i + 1 < layers.size() ? layers[i + 1] : overlap.n_layers();
    for (int32_t t = layers[i] + 1; t < end; ++t) rated.common += overlap.at(layers[i], t);
  }
  const auto n_others = overlap.n_layers() - static_cast<int64_t>(layers.size());
  const int64_t most = overlap.n_chosen() * n_others;
  if (most > 0) rated.share = static_cast<double>(rated.common) / static_cast<double>(most);
  rated.layers = std::move(layers);
  return rated;
}

// best[k][a]: the most that layers a, a + 1, ... can have in common with k full layers, of which a
// is the first. The full layer behind it is the first layer that attains it, and so the list the
// smallest.
FullLayers choose_full_layers(const LayerOverlap& overlap, int32_t n_full) {
  const int32_t n = overlap.n_layers();
  assert(n_full >= 1 && n_full <= n);
  constexpr int64_t kNone = -1;
  const std::vector<int64_t> none(z(n), kNone);
  std::vector<std::vector<int64_t>> best(z(n_full) + 1, none);
  std::vector<std::vector<int32_t>> next(z(n_full) + 1, std::vector<int32_t>(z(n), n));
  for (int32_t k = 1; k <= n_full; ++k) {
    for (int32_t a = 0; a < n; ++a) {
      int64_t segment = 0;  // layers between a and b
      for (int32_t b = a + 1; b <= n; ++b) {
        const int64_t rest = b == n ? (k == 1 ? 0 : kNone) : best[z(k) - 1][z(b)];
        if (rest != kNone && segment + rest > best[z(k)][z(a)]) {
          best[z(k)][z(a)] = segment + rest;
          next[z(k)][z(a)] = b;
        }
        if (b < n) segment += overlap.at(a, b);
      }
    }
  }
  std::vector<int32_t> layers;
  for (int32_t k = n_full, a = 0; k > 0; a = next[z(k--)][z(a)]) layers.push_back(a);
  return rate_full_layers(overlap, std::move(layers));
}

}  // namespace kvasir
