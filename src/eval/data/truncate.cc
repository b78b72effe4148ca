#include "eval/data/truncate.h"

namespace kvasir::eval {

std::vector<int32_t> truncate_middle(std::span<const int32_t> tokens, size_t limit) {
  if (tokens.size() <= limit) return {tokens.begin(), tokens.end()};
  const auto first = tokens.first(limit / 2);
  const auto last = tokens.last(limit / 2);
  std::vector<int32_t> kept(first.begin(), first.end());
  kept.insert(kept.end(), last.begin(), last.end());
  return kept;
}

}  // namespace kvasir::eval
