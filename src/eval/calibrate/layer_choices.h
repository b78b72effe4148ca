// What each layer of a model would choose by omnikv's score, at decode points in a text.
//
// Runs the model on the CPU with llama.cpp's own f16 cache, every layer full, and reads the
// attention of single decode steps. Knows nothing of what the choices are for. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "eval/session.h"
#include "llama.h"
#include "select/full_layer_choice.h"
#include "select/selector.h"

namespace kvasir::eval {

/// What lies between the sinks and the newest tokens are candidates.
inline constexpr int32_t kChoiceSinks = 4;
inline constexpr int32_t kChoiceRecent = 32;

/// The best candidates of one layer in one step. probabilities: attention of each head to all
/// tokens, `row` floats a head; candidates are [first, first + n). Each head's are set to the sum 1
/// over the candidates, the largest over the heads is a candidate's score, the `k` best are given,
/// ascending. Requires: 0 <= k <= n, first + n <= row.
std::vector<int32_t> best_candidates(std::span<const float> probabilities, int64_t row,
                                     int32_t first, int32_t n, int32_t k);

struct ChoicePlan {
  std::vector<llama_token> tokens;
  int32_t n_points = 16;        ///< decode steps looked at, evenly over the second half
  std::vector<int32_t> layers;  ///< of the model, by its own numbers, ascending
  Keep keep;                    ///< how many candidates a layer chooses
  int32_t n_threads = 2;

  /// The token that is decoded at point i, of [0, n_points).
  int32_t position(int32_t i) const;
};

/// What the layers of the plan have in common, over its points. on_point is called after each.
/// Requires: a model on the CPU alone, at least 2 * n_points tokens and a candidate at each point.
/// Fails with one line.
Result<LayerOverlap> overlap_of_choices(const std::shared_ptr<llama_model>& model,
                                        const ChoicePlan& plan,
                                        const std::function<void()>& on_point);

}  // namespace kvasir::eval
