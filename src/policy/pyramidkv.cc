// Policy `pyramidkv`: PyramidKV, "Dynamic KV Cache Compression based on Pyramidal Information
// Funneling" (arXiv 2406.02069): SnapKV's ranking with budgets that fall from layer to layer.
//
// Formula, with N = --kv-budget, w the protected tokens, c = N - w and L layers:
//   min = c / beta, max = 2 c - min, beta = 20
//   where the stream is too short for it (max >= n - w): max = n - w, min = 2 c - max
//   N(l) = w + max - (max - min) l / (L - 1), from max in the first layer to min in the last
// The same budget for all layers while fewer than 2 c tokens were seen, as in the authors' code.
// So N is the mean over the layers, and each layer holds its N(l) at every step. n is the number of
// tokens that the stream has seen. The mean never exceeds N: what is subtracted is rounded up,
// where the authors' whole-number division of the step lets it. Defaults: beta 20, w = 32
// (--kv-protect); sinks 4 (the paper has none), which min must hold. Ranking, windows and heads:
// snapkv.cc.
#include <algorithm>
#include <memory>
#include <utility>

#include "policy/budgets.h"
#include "policy/checks.h"
#include "policy/rankers.h"
#include "policy/snapkv.h"

namespace kvasir {
namespace {

constexpr int64_t kBeta = 20;

class LinearPyramid final : public BudgetRule {
 public:
  /// @param window  protected tokens, in every layer's budget
  /// @param least   tokens beside the window that each layer must hold
  LinearPyramid(std::unique_ptr<BudgetRule> mean, int32_t window, int32_t least)
      : mean_(std::move(mean)), window_(window), least_(least) {}
  Needs needs() const override { return mean_->needs(); }

  int32_t tokens(const StepState& step, const LayerState& layer) const override {
    const int64_t n = mean_->tokens(step, layer);
    const int64_t c = n - window_;
    const int64_t seen = step.n_tokens;
    const int64_t n_steps = layer.n_layers - 1;
    if (n_steps < 1 || seen < 2 * c) return static_cast<int32_t>(n);
    int64_t smallest = std::max<int64_t>(c / kBeta, least_);
    int64_t largest = 2 * c - smallest;
    if (largest >= seen - window_) {
      largest = std::max(c, seen - window_);
      smallest = 2 * c - largest;
    }
    const int64_t less = ((largest - smallest) * layer.layer + n_steps - 1) / n_steps;
    return static_cast<int32_t>(window_ + largest - less);
  }

 private:
  std::unique_ptr<BudgetRule> mean_;
  int32_t window_, least_;
};

}  // namespace

Result<Policy> make_policy_pyramidkv(const PolicyParams& params) {
  Result<Policy> policy =
      make_ranked_policy("pyramidkv", params, kReadsBudget | kReadsProtect | kReadsHeads,
                         kSnapWindow, snapkv_ranker(params.heads));
  if (!policy) return policy;
  Policy& made = policy.value();
  made.budget =
      std::make_unique<LinearPyramid>(std::move(made.budget), made.protect, made.sinks + 1);
  return policy;
}

}  // namespace kvasir
