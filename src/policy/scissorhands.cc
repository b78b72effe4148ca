// Policy `scissorhands`: Scissorhands, "Exploiting the Persistence of Importance Hypothesis for LLM
// KV Cache Compression at Test Time" (arXiv 2305.17118): tokens that were important often lately.
//
// Formula: score of a token = in how many of the last w = 400 decode steps its attention weight was
// at least 1 / n, n the number of live tokens. A layer that is over its budget N gives up N / 2
// tokens at once, never the newest r = 10.
// Defaults: w = 400, r = 10 (--kv-protect), drop = N / 2; sinks 4 (the paper has none).
// The paper keeps a history per head and gives later layers more; here a layer keeps the same
// tokens for all heads (mean over query heads, --kv-heads max), and all layers have one budget. The
// paper leaves open what history a prompt's tokens have: here a token whose mean weight over the
// prompt's last 32 queries reaches 1 / n counts as important in 32 steps before the first.
#include <algorithm>
#include <bit>
#include <cassert>
#include <memory>
#include <utility>

#include "policy/budgets.h"
#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

constexpr int32_t kHistory = 400;  // steps
constexpr int32_t kRecent = 10;
constexpr int32_t kObservedQueries = 32;
constexpr int32_t kWordBits = 32;
constexpr int32_t kWords = (kHistory + kWordBits - 1) / kWordBits;

// A token's history: bit (step % kHistory) says whether it was important in that step. The words
// lie in the floats of its state.
class History {
 public:
  explicit History(std::span<float> words) : words_(words) {}

  void note(int64_t step, bool important) {
    const int64_t bit = ((step % kHistory) + kHistory) % kHistory;
    float& word = words_[static_cast<size_t>(bit / kWordBits)];
    const uint32_t mask = 1U << static_cast<uint32_t>(bit % kWordBits);
    const auto bits = std::bit_cast<uint32_t>(word);
    word = std::bit_cast<float>(important ? bits | mask : bits & ~mask);
  }

 private:
  std::span<float> words_;
};

class HistoryRanker final : public Ranker {
 public:
  explicit HistoryRanker(HeadReduction heads) : heads_(heads) {}

  Needs needs() const override {
    Needs needs;
    needs.step_mass = true;
    needs.observed_queries = kObservedQueries;
    needs.heads = heads_;
    return needs;
  }
  int32_t n_state() const override { return kWords; }

  void observe(const Mass& seen, std::span<float> state) const override {
    const size_t n = seen.mass.size();
    assert(state.size() == n * kWords);
    if (n == 0) return;
    // A window stands for the steps before this one.
    const bool window = seen.kind == Mass::Kind::kObserved;
    const int64_t first = window ? seen.step - seen.n_queries : seen.step;
    const int64_t last = window ? seen.step - 1 : seen.step;
    const float uniform = 1.0F / static_cast<float>(n);
    for (size_t i = 0; i < n; ++i) {
      History history(state.subspan(i * kWords, kWords));
      const bool important = seen.mass[i] >= uniform;
      for (int64_t step = first; step <= last; ++step) history.note(step, important);
    }
  }

  void score(const Candidates& candidates, std::span<float> scores) const override {
    assert(candidates.state.size() == scores.size() * kWords);
    for (size_t i = 0; i < scores.size(); ++i) {
      int32_t count = 0;
      for (const float word : candidates.state.subspan(i * kWords, kWords)) {
        count += std::popcount(std::bit_cast<uint32_t>(word));
      }
      scores[i] = static_cast<float>(count);
    }
  }

 private:
  HeadReduction heads_;
};

// A layer over N is cut to N - N / 2, but not below the floor.
class HalvingBudget final : public BudgetRule {
 public:
  HalvingBudget(std::unique_ptr<BudgetRule> inside, int64_t floor)
      : inside_(std::move(inside)), floor_(floor) {}
  Needs needs() const override { return inside_->needs(); }
  int32_t tokens(const StepState& step, const LayerState& layer) const override {
    const int32_t n = inside_->tokens(step, layer);
    if (layer.live <= n) return n;
    return static_cast<int32_t>(std::min<int64_t>(n, std::max<int64_t>(floor_, n - n / 2)));
  }

 private:
  std::unique_ptr<BudgetRule> inside_;
  int64_t floor_;
};

}  // namespace

Result<Policy> make_policy_scissorhands(const PolicyParams& params) {
  Result<Policy> policy = make_ranked_policy(
      "scissorhands", params, kReadsBudget | kReadsProtect | kReadsPyramid | kReadsHeads, kRecent,
      std::make_unique<HistoryRanker>(params.heads));
  if (!policy) return policy;
  Policy& made = policy.value();
  const int64_t floor = budget_floor(made.sinks, made.protect).tokens;
  made.budget = std::make_unique<HalvingBudget>(std::move(made.budget), floor);
  return policy;
}

}  // namespace kvasir
