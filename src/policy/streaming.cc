// Policy `streaming`: StreamingLLM, "Efficient Streaming Language Models with Attention Sinks"
// (arXiv 2309.17453): the first tokens and the newest ones, numbered by their place in the cache.
//
// Formula: with budget N and S sinks the first S and the newest N - S tokens stay, in every layer
// and head alike. Score of a token: its position. Keys count from 0 to n - 1 in the order in which
// they lie, so distances never exceed N; --kv-positions original keeps the positions they came
// with. Defaults: S = 4 (the paper's), P = 0, N must be given (the paper: 4 + 1020, 4 + 2044).
#include <utility>

#include "policy/checks.h"
#include "policy/rankers.h"

namespace kvasir {

Result<Policy> make_policy_streaming(const PolicyParams& params) {
  Result<Policy> policy = make_ranked_policy(
      "streaming", params, kReadsBudget | kReadsProtect | kReadsPyramid, 0, recency_ranker());
  if (policy) policy.value().positions_in_cache = true;
  return policy;
}

}  // namespace kvasir
