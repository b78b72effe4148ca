// sketch: each layer reads the tokens whose sketched keys match the query best. sketch16: pages of
// 16 consecutive tokens by the best of them, which is how f16 and int8 rows lie in memory.
//
// Kvasir's own, by token where Quest goes by bounds of pages. Others choose each step from small
// copies of keys too: their principal channels (Loki, arXiv 2406.02542), the channels that a query
// weighs most (SparQ, arXiv 2312.04985), 4-bit codes (Twilight, arXiv 2502.02770).
#include "select/indexed.h"
#include "select/key_sketch.h"

namespace kvasir {
namespace {

class SketchSelector final : public IndexedSelector {
 public:
  SketchSelector(std::string_view name, const SelectParams& params, int32_t page_tokens)
      : IndexedSelector(
            name, params,
            {.tokens = page_tokens, .items = page_tokens, .least = KeySketch::kSettling}) {}

  std::unique_ptr<KeyIndex> make_index() const override { return std::make_unique<KeySketch>(); }
};

}  // namespace

Result<std::unique_ptr<Selector>> make_selector_sketch(const SelectParams& params) {
  return std::unique_ptr<Selector>(std::make_unique<SketchSelector>("sketch", params, 1));
}

Result<std::unique_ptr<Selector>> make_selector_sketch16(const SelectParams& params) {
  return std::unique_ptr<Selector>(
      std::make_unique<SketchSelector>("sketch16", params, kLaneSlots));
}

}  // namespace kvasir
