// Policy `recency`: a control, what age alone is worth under another policy's budget.
//
// Formula: the newest tokens stay beside the sinks. Score of a token: its position (CONF-KV's
// isolation with alpha = 0).
// Defaults: P = 32 and sinks 4 as `conf`, so that they differ in the ranker alone. The budget is
// --kv-budget, or the recorded one of --kv-schedule, step by step.
#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {

Result<Policy> make_policy_recency(const PolicyParams& params) {
  return make_ranked_policy("recency", params,
                            kReadsBudget | kReadsProtect | kReadsPyramid | kReadsSchedule, 32,
                            recency_ranker());
}

}  // namespace kvasir
