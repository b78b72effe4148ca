// Parts that several policies are made of: ranking by age, the moving average of attention, and the
// policy with one budget that most methods are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "policy/policy.h"

namespace kvasir {

/// A ranker whose state is the score itself: one float a token, which observe() or arrive() leave.
class StateRanker : public Ranker {
 public:
  int32_t n_state() const override { return 1; }
  void score(const Candidates& candidates, std::span<float> scores) const override;
};

/// Newer tokens rank higher.
std::unique_ptr<Ranker> recency_ranker();

/// Moving average of attention, CONF-KV's ("Ranker"): a <- lambda a + (1 - lambda) m. After a
/// prompt tokens that no mass was seen of start from their mean mass over the observed queries.
/// Mass that is not finite counts as 0: a model that yields NaN must not poison a stream's ranking.
/// @param stride  floats of state per token; a is the first
void fold_average(const Mass& seen, double lambda, std::span<float> state, int32_t stride);

/// Finite mass as it is, anything else as 0.
float finite_mass(float mass);

/// Mean over the KV heads of the L2 norm of each row's head; out of row i goes to out[i * stride].
void mean_norms(const ArrivingRows& rows, float* out, int32_t stride);

/// A policy with one budget (make_budget) around `ranker`. Checks parameters against `reads`.
/// @param protect  newest tokens kept where --kv-protect is not given
Result<Policy> make_ranked_policy(std::string_view name, const PolicyParams& params, uint32_t reads,
                                  int32_t protect, std::unique_ptr<Ranker> ranker);

}  // namespace kvasir
