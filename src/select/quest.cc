// quest: each layer reads the pages of 16 tokens whose keys could match the query best (Tang et
// al., arXiv 2406.10774).
//
// A page's bound is the largest score that any of its tokens could have. The best pages are read
// until they hold K tokens. The first two layers read all, as in the paper; there each head chooses
// for itself, here a layer chooses once, by the largest bound over its query heads: with grouped
// query heads rows are read for all of them anyway.
#include <algorithm>

#include "select/full_layers.h"
#include "select/selector.h"
#include "select/top_k.h"

namespace kvasir {
namespace {

constexpr int32_t kDenseLayers = 2;

size_t z(int64_t n) { return static_cast<size_t>(n); }

class QuestSelector final : public Selector {
 public:
  explicit QuestSelector(const SelectParams& params)
      : keep_(params.keep.value_or(Keep{})), given_(params.full_layers) {}

  Result<void> check_layers(int32_t n_layers) const override {
    return given_ ? check_full_layers(*given_, n_layers) : Result<void>();
  }

  Role role(int32_t layer, int32_t /*n_layers*/) const override {
    const bool full =
        given_ ? std::binary_search(given_->begin(), given_->end(), layer) : layer < kDenseLayers;
    return full ? Role::kDense : Role::kChoose;
  }

  int32_t page_tokens() const override { return PageBounds::kTokens; }

  int32_t n_chosen(int32_t n) const override {
    constexpr int32_t kTokens = PageBounds::kTokens;
    return std::min(n, (keep_.of(n) + kTokens - 1) / kTokens * kTokens);
  }

  void choose(const SelectInput& input, const KvKernels& kernels, ParallelFor& parallel,
              SelectScratch& scratch, std::vector<int32_t>& chosen) const override {
    constexpr int32_t kTokens = PageBounds::kTokens;
    const int32_t n_pages = input.bounds->n_pages();
    if (scratch.scores.size() < z(n_pages)) scratch.scores.resize(z(n_pages) + z(n_pages) / 8);
    const auto scores = std::span(scratch.scores).first(z(n_pages));
    input.bounds->score(input.q, input.q_head, input.n_heads, kernels, parallel, scratch.heads,
                        scores);
    top_k(scores, n_chosen(input.n) / kTokens, scratch.pages);
    chosen.clear();
    for (const int32_t page : scratch.pages) {
      for (int32_t i = 0; i < kTokens; ++i) chosen.push_back(page * kTokens + i);
    }
  }

 private:
  Keep keep_;
  std::optional<std::vector<int32_t>> given_;
};

}  // namespace

Result<std::unique_ptr<Selector>> make_selector_quest(const SelectParams& params) {
  return std::unique_ptr<Selector>(std::make_unique<QuestSelector>(params));
}

}  // namespace kvasir
