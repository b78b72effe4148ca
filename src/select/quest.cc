// quest: each layer reads the pages of 16 tokens whose keys could match the query best (Tang et
// al., arXiv 2406.10774).
//
// A page's bound is the largest score that any of its tokens could have. In the paper each head
// chooses for itself, here a layer chooses once, by the largest bound over its query heads: with
// grouped query heads rows are read for all of them anyway.
#include "select/indexed.h"
#include "select/page_bounds.h"

namespace kvasir {
namespace {

class QuestSelector final : public IndexedSelector {
 public:
  explicit QuestSelector(const SelectParams& params)
      : IndexedSelector("quest", params, {.tokens = PageBounds::kTokens}) {}

  std::unique_ptr<KeyIndex> make_index() const override { return std::make_unique<PageBounds>(); }
};

}  // namespace

Result<std::unique_ptr<Selector>> make_selector_quest(const SelectParams& params) {
  return std::unique_ptr<Selector>(std::make_unique<QuestSelector>(params));
}

}  // namespace kvasir
