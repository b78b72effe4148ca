// Policy `random`: a control, what any choice is worth under another policy's budget.
//
// Formula: score of a token = a number drawn from [0, 1) for seed, layer, step and position: each
// layer draws at each step anew, and a run can be repeated.
// Defaults: seed 0 (--kv-seed), P = 32 and sinks 4 as `conf`, so that they differ in the ranker
// alone. The budget is --kv-budget, or the recorded one of --kv-schedule, step by step.
#include <cassert>
#include <memory>

#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

// The finalizer of splitmix64 (Steele, Lea and Flood 2014): each bit of x reaches all of the
// result.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

class RandomRanker final : public Ranker {
 public:
  explicit RandomRanker(int32_t seed) : seed_(static_cast<uint64_t>(seed)) {}

  void score(const Candidates& candidates, std::span<float> scores) const override {
    assert(scores.size() == candidates.positions.size());
    constexpr uint32_t kBits = 24;  // what a float tells apart in [0, 1)
    const uint64_t of_step = mixed(mixed(mixed(seed_) + static_cast<uint64_t>(candidates.layer)) +
                                   static_cast<uint64_t>(candidates.step));
    for (size_t i = 0; i < scores.size(); ++i) {
      const uint64_t draw = mixed(of_step + static_cast<uint64_t>(candidates.positions[i]));
      scores[i] = static_cast<float>(draw >> (64U - kBits)) / static_cast<float>(1U << kBits);
    }
  }

 private:
  uint64_t seed_;
};

}  // namespace

Result<Policy> make_policy_random(const PolicyParams& params) {
  if (auto ok = check_at_least("--kv-seed", params.seed, 0); !ok) return Error{ok.error()};
  return make_ranked_policy(
      "random", params, kReadsBudget | kReadsProtect | kReadsPyramid | kReadsSchedule | kReadsSeed,
      32, std::make_unique<RandomRanker>(params.seed));
}

}  // namespace kvasir
