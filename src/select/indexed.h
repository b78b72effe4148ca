// Methods whose layers choose for themselves, from an index of their keys: the pages that score
// best are read until they hold K tokens. A page is one item of the index or some consecutive ones,
// and scores as the best of them.
//
// What a method adds is its index. The first two layers read all unless others are given
// (--kv-full-layers): as in Quest, arXiv 2406.10774, section 4.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "select/selector.h"

namespace kvasir {

class IndexedSelector : public Selector {
 public:
  struct Pages {
    int32_t tokens = 1;  ///< of a page
    int32_t items = 1;   ///< of the index, of a page
    int32_t least = 1;   ///< candidates; fewer are all read
  };
  IndexedSelector(std::string_view name, const SelectParams& params, const Pages& pages)
      : name_(name),
        keep_(params.keep.value_or(Keep{})),
        given_(params.full_layers),
        pages_(pages) {}

  std::string_view name() const override { return name_; }
  Result<void> check_layers(int32_t n_layers) const override;
  Role role(int32_t layer, int32_t n_layers) const override;
  int32_t page_tokens() const override { return pages_.tokens; }
  int32_t n_chosen(int32_t n) const override;
  void choose(const SelectInput& input, const KvKernels& kernels, ParallelFor& parallel,
              SelectScratch& scratch, std::vector<int32_t>& chosen) const override;

 private:
  std::string_view name_;
  Keep keep_;
  std::optional<std::vector<int32_t>> given_;
  Pages pages_;
};

}  // namespace kvasir
