// Policy `window`: the first tokens and the newest ones, at their original positions; without sinks
// a plain sliding window. StreamingLLM, which numbers tokens by place in the cache, is `streaming`.
//
// Formula: with budget N (--kv-budget) and S sinks (--kv-sinks) the first S and the newest N - S
// tokens stay, in every layer alike. Score of a token: its position.
// Defaults: S = 4, P = 0, N must be given. N >= S + P + 1. --kv-protect changes nothing else: the
// newest tokens are what stays.
#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {

Result<Policy> make_policy_window(const PolicyParams& params) {
  return make_ranked_policy("window", params, kReadsBudget | kReadsProtect | kReadsPyramid, 0,
                            recency_ranker());
}

}  // namespace kvasir
