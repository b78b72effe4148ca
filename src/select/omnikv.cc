// omnikv: a few full layers say which tokens matter, the layers behind them read those (OmniKV, Hao
// et al., ICLR 2025; the form that DeltaKV, arXiv 2602.08005, uses).
//
// A full layer whose next layer is not full observes: a token's score is its largest attention
// probability over all query heads, where each head's softmax runs over the candidates alone, not
// over sinks and the newest tokens. The K best serve every layer up to the next full one, for all
// heads, in this step only.
#include <algorithm>
#include <cmath>
#include <limits>

#include "select/full_layers.h"
#include "select/selector.h"
#include "select/top_k.h"

namespace kvasir {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr int32_t kPerItem = 4096;  // candidates of one item of work

size_t z(int64_t n) { return static_cast<size_t>(n); }

class OmniKvSelector final : public Selector {
 public:
  explicit OmniKvSelector(const SelectParams& params)
      : keep_(params.keep.value_or(Keep{})), given_(params.full_layers) {}

  std::string_view name() const override { return "omnikv"; }

  Result<void> check_layers(int32_t n_layers) const override {
    return given_ ? check_full_layers(*given_, n_layers) : Result<void>();
  }

  Role role(int32_t layer, int32_t n_layers) const override {
    if (!is_full(layer, n_layers)) return Role::kFollow;
    const bool observes = layer + 1 < n_layers && !is_full(layer + 1, n_layers);
    return observes ? Role::kObserve : Role::kDense;
  }

  int32_t n_chosen(int32_t n) const override { return keep_.of(n); }

  // The logarithm of a probability orders as the probability does, and takes no exp for each token:
  // ln p = score - (max + ln Z) of its head.
  void choose(const SelectInput& input, const KvKernels& kernels, ParallelFor& parallel,
              SelectScratch& scratch, std::vector<int32_t>& chosen) const override {
    const int32_t n = input.n;
    if (scratch.heads.size() < z(input.n_heads)) scratch.heads.resize(z(input.n_heads));
    if (scratch.scores.size() < z(n)) scratch.scores.resize(z(n) + z(n) / 8);
    parallel.run(input.n_heads, [&](int64_t h, int32_t /*worker*/) {
      const KvKernels::LogitSums sums = kernels.logit_sums(input.logits + h * input.logits_head, n);
      scratch.heads[z(h)] = sums.finite ? sums.max1 + static_cast<float>(std::log(sums.z))
                                        : std::numeric_limits<float>::infinity();
    });
    float* scores = scratch.scores.data();
    parallel.run((n + kPerItem - 1) / kPerItem, [&](int64_t item, int32_t /*worker*/) {
      const auto first = static_cast<int32_t>(item) * kPerItem;
      const int32_t end = std::min(n, first + kPerItem);
      std::fill(scores + first, scores + end, kMinusInf);
      for (int32_t h = 0; h < input.n_heads; ++h) {
        const float norm = scratch.heads[z(h)];
        if (std::isinf(norm)) continue;  // a head that sees no candidate, or NaN
        const float* logits = input.logits + h * input.logits_head;
        for (int32_t i = first; i < end; ++i) scores[i] = std::max(scores[i], logits[i] - norm);
      }
    });
    top_k(std::span(scratch.scores).first(z(n)), n_chosen(n), chosen);
  }

 private:
  bool is_full(int32_t layer, int32_t n_layers) const {
    if (given_) return std::binary_search(given_->begin(), given_->end(), layer);
    return is_usual_full_layer(layer, n_layers);
  }

  Keep keep_;
  std::optional<std::vector<int32_t>> given_;
};

}  // namespace

Result<std::unique_ptr<Selector>> make_selector_omnikv(const SelectParams& params) {
  const auto& layers = params.full_layers;
  if (layers && (layers->empty() || layers->front() != 0)) {
    return Error{"--kv-full-layers " + layer_list(*layers) +
                 ": layer 0 must be among them with --kv-select omnikv"};
  }
  return std::unique_ptr<Selector>(std::make_unique<OmniKvSelector>(params));
}

}  // namespace kvasir
