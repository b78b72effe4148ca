// Policy `oldest`, of a test alone: the oldest tokens stay. What a method outside this tree needs.
#include <algorithm>
#include <memory>

#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

class OldestRanker final : public Ranker {
 public:
  void score(const Candidates& candidates, std::span<float> scores) const override {
    std::transform(candidates.positions.begin(), candidates.positions.end(), scores.begin(),
                   [](int32_t position) { return -static_cast<float>(position); });
  }
};

}  // namespace

Result<Policy> make_policy_oldest(const PolicyParams& params) {
  return make_ranked_policy("oldest", params, kReadsBudget | kReadsProtect, 0,
                            std::make_unique<OldestRanker>());
}

}  // namespace kvasir
