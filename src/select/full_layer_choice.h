// Which layers of a model should be full with omnikv: those whose best candidates are most like
// the best candidates of the layers behind them (DeltaKV's offline selection, arXiv 2602.08005).
//
// Sets of candidates in, layers out; knows no model, no text and no file. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir {

/// How many of their chosen candidates two layers have in common, over decode points.
class LayerOverlap {
 public:
  explicit LayerOverlap(int32_t n_layers);

  /// One decode point: what each layer would choose, ascending and as many in each layer.
  /// Requires: chosen.size() == n_layers().
  void add(std::span<const std::vector<int32_t>> chosen);

  int32_t n_layers() const { return n_layers_; }
  /// Candidates that both layers chose, summed over the points.
  int64_t at(int32_t a, int32_t b) const { return common_[index(a, b)]; }
  /// Candidates that each layer chose, summed over the points.
  int64_t n_chosen() const { return n_chosen_; }

 private:
  size_t index(int32_t a, int32_t b) const {
    return static_cast<size_t>(a) * static_cast<size_t>(n_layers_) + static_cast<size_t>(b);
  }

  int32_t n_layers_;
  int64_t n_chosen_ = 0;
  std::vector<int64_t> common_;  // [n_layers, n_layers]
};

/// Full layers, each with the layers up to the next one, that read what it chose.
struct FullLayers {
  std::vector<int32_t> layers;  ///< ascending, 0 first
  int64_t common = 0;           ///< sum of at(full, layer) over the layers that are not full
  double share = 1;             ///< of what those layers would choose themselves; 1: there are none
};

/// What these full layers are worth. Requires: ascending, 0 first, below n_layers().
FullLayers rate_full_layers(const LayerOverlap& overlap, std::vector<int32_t> layers);

/// The n_full layers worth most, 0 among them; the lexicographically smallest of equals.
/// Requires: 1 <= n_full <= n_layers().
FullLayers choose_full_layers(const LayerOverlap& overlap, int32_t n_full);

}  // namespace kvasir
