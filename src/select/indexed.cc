#include "select/indexed.h"

#include <algorithm>

#include "select/full_layers.h"
#include "select/top_k.h"

namespace kvasir {
namespace {

constexpr int32_t kDenseLayers = 2;

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

Result<void> IndexedSelector::check_layers(int32_t n_layers) const {
  return given_ ? check_full_layers(*given_, n_layers) : Result<void>();
}

Role IndexedSelector::role(int32_t layer, int32_t /*n_layers*/) const {
  const bool full =
      given_ ? std::binary_search(given_->begin(), given_->end(), layer) : layer < kDenseLayers;
  return full ? Role::kDense : Role::kChoose;
}

int32_t IndexedSelector::n_chosen(int32_t n) const {
  if (n < pages_.least) return n;
  return std::min(n, (keep_.of(n) + pages_.tokens - 1) / pages_.tokens * pages_.tokens);
}

void IndexedSelector::choose(const SelectInput& input, const KvKernels& kernels,
                             ParallelFor& parallel, SelectScratch& scratch,
                             std::vector<int32_t>& chosen) const {
  const int32_t n_items = input.index->n_items();
  if (scratch.scores.size() < z(n_items)) scratch.scores.resize(z(n_items) + z(n_items) / 8);
  const auto scores = std::span(scratch.scores).first(z(n_items));
  input.index->score(input.queries, kernels, parallel, scratch.index, scores);
  const int32_t n_pages = n_items / pages_.items;
  for (int32_t page = 0; pages_.items > 1 && page < n_pages; ++page) {
    const auto items = scores.subspan(z(page) * z(pages_.items), z(pages_.items));
    scores[z(page)] = *std::max_element(items.begin(), items.end());
  }
  top_k(scores.first(z(n_pages)), n_chosen(input.n) / pages_.tokens, scratch.pages);
  chosen.clear();
  for (const int32_t page : scratch.pages) {
    for (int32_t i = 0; i < pages_.tokens; ++i) chosen.push_back(page * pages_.tokens + i);
  }
}

}  // namespace kvasir
