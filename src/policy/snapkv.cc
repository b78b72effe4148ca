// Policy `snapkv`: SnapKV, "LLM Knows What You are Looking for Before Generation" (arXiv
// 2404.14469): what the last queries of the prompt looked at, smoothed over neighbours.
//
// Formula: a_i = mean over the window's w = 32 queries of the attention weight of token i; score =
// average of a over 5 neighbours (stride 1, zeros beyond the ends), window tokens left out of it.
// The newest w tokens stay. Defaults: w = 32, kernel 5, average pooling, P = 32; sinks 4 (the paper
// has none). The paper compresses once, after the prompt, and lets decoded tokens pile up. Here the
// budget holds while decoding too: the window of the last 32 queries is observed anew every 32
// decode steps, over the tokens that are live then, and takes the place of the former one. The
// paper ranks per head; here a layer keeps the same tokens for all heads: mean over query heads
// (--kv-heads max: the largest).
#include "policy/snapkv.h"

#include <algorithm>
#include <cassert>
#include <memory>

#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {
namespace {

constexpr size_t kKernel = 5;

// out[i] = mean of in[i - 2 .. i + 2], zeros beyond the ends.
void average_pool(std::span<const float> in, std::span<float> out) {
  constexpr size_t kReach = kKernel / 2;
  for (size_t i = 0; i < in.size(); ++i) {
    const size_t first = i < kReach ? 0 : i - kReach;
    const size_t end = std::min(in.size(), i + kReach + 1);
    float sum = 0;
    for (size_t j = first; j < end; ++j) sum += finite_mass(in[j]);
    out[i] = sum / kKernel;
  }
}

class SnapRanker final : public StateRanker {
 public:
  explicit SnapRanker(HeadReduction heads) : heads_(heads) {}

  Needs needs() const override {
    Needs needs;
    needs.observed_queries = kSnapWindow;
    needs.observe_every = kSnapWindow;
    needs.heads = heads_;
    return needs;
  }

  void observe(const Mass& seen, std::span<float> state) const override {
    assert(seen.mass.size() == state.size());
    const size_t n = state.size();
    const size_t n_window = std::min(n, static_cast<size_t>(std::max(0, seen.n_queries)));
    const size_t n_prefix = n - n_window;
    average_pool(seen.mass.first(n_prefix), state.first(n_prefix));
    std::transform(seen.mass.begin() + static_cast<ptrdiff_t>(n_prefix), seen.mass.end(),
                   state.begin() + static_cast<ptrdiff_t>(n_prefix), finite_mass);
  }

 private:
  HeadReduction heads_;
};

}  // namespace

std::unique_ptr<Ranker> snapkv_ranker(HeadReduction heads) {
  return std::make_unique<SnapRanker>(heads);
}

Result<Policy> make_policy_snapkv(const PolicyParams& params) {
  return make_ranked_policy("snapkv", params,
                            kReadsBudget | kReadsProtect | kReadsPyramid | kReadsHeads, kSnapWindow,
                            snapkv_ranker(params.heads));
}

}  // namespace kvasir
