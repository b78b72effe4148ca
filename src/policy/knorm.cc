// Policy `knorm`: "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression" (arXiv
// 2406.11430): tokens whose keys are short stay. Looks at no attention.
//
// Formula: score of a token = -||k||, L2 norm of its key, which rotation does not change.
// Defaults: P = 0; sinks 4 (the paper has none).
// The paper ranks per KV head; here a layer keeps the same tokens for all heads: mean of the norms.
#include <algorithm>
#include <cassert>
#include <functional>
#include <memory>

#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

class KeyNormRanker final : public Ranker {
 public:
  Needs needs() const override {
    Needs needs;
    needs.rows = true;
    return needs;
  }
  int32_t n_state() const override { return 1; }
  void arrive(const ArrivingRows& rows, std::span<float> state) const override {
    if (rows.kind == ArrivingRows::Kind::kKeys) mean_norms(rows, state.data(), 1);
  }
  void score(const Candidates& candidates, std::span<float> scores) const override {
    assert(scores.size() == candidates.state.size());
    std::transform(candidates.state.begin(), candidates.state.end(), scores.begin(),
                   std::negate<>());
  }
};

}  // namespace

Result<Policy> make_policy_knorm(const PolicyParams& params) {
  return make_ranked_policy("knorm", params, kReadsBudget | kReadsProtect | kReadsPyramid, 0,
                            std::make_unique<KeyNormRanker>());
}

}  // namespace kvasir
