// Which tokens a context still holds, seen from outside: through llama.cpp's saved state.
//
// A row of an evicted token is saved as NaN. The saved state of one sequence ends with the V rows
// of all layers, each block with its type and row size in front, so they are read from the end.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "eval/session.h"

namespace kvasir::eval {

/// Positions of the tokens that each layer holds, ascending: [n_layers][live]. Requires: sequence 0
/// with positions 0 .. n_tokens - 1 in order, K/V rows of `row_elements` f16 in every layer.
/// Fails with one line if the saved state is not laid out so.
Result<std::vector<std::vector<int32_t>>> live_positions(Session& session, int32_t n_tokens,
                                                         int32_t row_elements);

}  // namespace kvasir::eval
