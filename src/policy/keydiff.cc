// Policy `keydiff`: KeyDiff, "Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference
// in Resource-Constrained Environments" (arXiv 2504.15364): tokens whose keys differ from the
// others stay. Looks at no attention.
//
// Formula: score of a token = -cos(k, mean of k / ||k|| over all live tokens), with keys as they
// are stored (rotated). O(live) keys are read at each eviction. Defaults: P = 0; sinks 4 (the paper
// has none). Sinks and protected tokens count in the mean. The paper ranks per KV head; here a
// layer keeps the same tokens for all heads: mean of the cosines.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <memory>

#include "kernels/kernels.h"
#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

double length(std::span<const float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * x;
  return std::sqrt(squares);
}

class KeyDiffRanker final : public Ranker {
 public:
  Needs needs() const override {
    Needs needs;
    needs.keys = true;
    return needs;
  }

  void score(const Candidates& candidates, std::span<float> scores) const override {
    assert(candidates.keys != nullptr && scores.size() == candidates.positions.size());
    const KeyReader& keys = *candidates.keys;
    std::fill(scores.begin(), scores.end(), 0.0F);
    for (int32_t head = 0; head < keys.n_kv_heads(); ++head) {
      std::array<double, kMaxHeadDim> anchor{};
      add_directions(keys, head, anchor);
      subtract_cosines(candidates, head, anchor, scores);
    }
  }

 private:
  // The sum of the keys' directions; its length does not matter to a cosine.
  static void add_directions(const KeyReader& keys, int32_t head,
                             std::array<double, kMaxHeadDim>& anchor) {
    std::array<float, kMaxHeadDim> buffer;
    const auto key = std::span(buffer).first(static_cast<size_t>(keys.head_dim()));
    for (int32_t token = 0; token < keys.n_tokens(); ++token) {
      keys.read(token, head, key);
      const double norm = length(key);
      if (!(norm > 0) || !std::isfinite(norm)) continue;
      for (size_t d = 0; d < key.size(); ++d) anchor[d] += key[d] / norm;
    }
  }

  static void subtract_cosines(const Candidates& candidates, int32_t head,
                               const std::array<double, kMaxHeadDim>& anchor,
                               std::span<float> scores) {
    const KeyReader& keys = *candidates.keys;
    std::array<float, kMaxHeadDim> buffer;
    const auto key = std::span(buffer).first(static_cast<size_t>(keys.head_dim()));
    double squares = 0;
    for (const double x : anchor) squares += x * x;
    const double scale = 1.0 / keys.n_kv_heads();
    for (size_t i = 0; i < scores.size(); ++i) {
      keys.read(candidates.first + static_cast<int32_t>(i), head, key);
      double dot = 0;
      for (size_t d = 0; d < key.size(); ++d) dot += anchor[d] * key[d];
      const double lengths = std::sqrt(squares) * length(key);
      const double cosine = lengths > 0 && std::isfinite(lengths) ? dot / lengths : 0;
      scores[i] -= static_cast<float>(scale * (std::isfinite(cosine) ? cosine : 0));
    }
  }
};

}  // namespace

Result<Policy> make_policy_keydiff(const PolicyParams& params) {
  return make_ranked_policy("keydiff", params, kReadsBudget | kReadsProtect | kReadsPyramid, 0,
                            std::make_unique<KeyDiffRanker>());
}

}  // namespace kvasir
