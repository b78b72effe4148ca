// Prompts that are too long lose their middle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvasir::eval {

/// `tokens` as they are if there are at most `limit`, else the first and the last limit / 2 of
/// them: the question, which stands at the end, and the instructions stay. An odd limit loses one
/// more, as in LongBench's and SCBench's own scripts.
std::vector<int32_t> truncate_middle(std::span<const int32_t> tokens, size_t limit);

}  // namespace kvasir::eval
