// Policy `tova`: TOVA, "Transformers are Multi-State RNNs" (arXiv 2401.06104): what the newest
// query looked at.
//
// Formula: score of a token = its attention weight in the newest query, mean over all query heads
// (--kv-heads max: the largest). Nothing is accumulated. The lowest leaves at every step, in each
// layer for itself and for all its heads alike, as in the paper.
// Defaults: P = 0, the newest token competes like all others; sinks 4 (the paper has none).
#include <algorithm>
#include <cassert>
#include <memory>

#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

class NewestQueryRanker final : public StateRanker {
 public:
  explicit NewestQueryRanker(HeadReduction heads) : heads_(heads) {}

  Needs needs() const override {
    Needs needs;
    needs.step_mass = true;
    needs.observed_queries = 1;
    needs.heads = heads_;
    return needs;
  }
  void observe(const Mass& seen, std::span<float> state) const override {
    assert(seen.mass.size() == state.size());
    std::transform(seen.mass.begin(), seen.mass.end(), state.begin(), finite_mass);
  }

 private:
  HeadReduction heads_;
};

}  // namespace

Result<Policy> make_policy_tova(const PolicyParams& params) {
  return make_ranked_policy("tova", params,
                            kReadsBudget | kReadsProtect | kReadsPyramid | kReadsHeads, 0,
                            std::make_unique<NewestQueryRanker>(params.heads));
}

}  // namespace kvasir
