// CONF-KV's premise: a model that is sure of its next token does not miss its recent past.
//
// At steps of a text read token by token, the newest tokens before the current one are hidden and
// the shift of the next-token distribution, KL(whole || hidden), is set against the confidence of
// the whole one (arXiv 2605.24786, premise test: 256 tokens, Pearson's r). Knows sessions; prints
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "eval/run/kv_session.h"

namespace kvasir::eval {

struct PremisePlan {
  std::vector<llama_token> tokens;
  int32_t prefix = 0;  ///< given as a prompt; more than `hidden`
  int32_t every = 1;   ///< steps between two measured ones
  int32_t hidden = 256;
  std::vector<double> temperatures = {1};  ///< at which c is taken too; 0: the limit, c = 1
  int32_t n_points() const;
  /// Position of the point with this index.
  int32_t position(int32_t point) const { return prefix + point * every; }
};

struct PremisePoint {
  int32_t position = 0;
  double kl = 0;  ///< nats, at temperature 1
  double c = 0, entropy = 0, p1 = 0, margin = 0;
  std::vector<double> c_at;  ///< [temperatures]
};

/// Takes each point as it is measured; a failure ends the run with it.
using OnPoint = std::function<Result<void>(const PremisePoint& point)>;

/// Measures every `every`-th step but the first `n_done` of them, whose text is then read as part
/// of the prompt. `model` was loaded onto the device. Fails with one line.
/// Requires: 0 <= n_done < plan.n_points().
Result<void> run_premise(std::shared_ptr<llama_model> model, const SessionParams& params,
                         const PremisePlan& plan, int32_t n_done, const OnPoint& on_point);

}  // namespace kvasir::eval
