// Policy `none`: every token stays; the full cache that all others are measured against.
//
// Formula: no limit, no ranker. The only policy that never evicts. Sink tokens stay like all
// others, so --kv-sinks is accepted; a budget is refused.
#include <limits>
#include <memory>

#include "policy/budgets.h"
#include "policy/checks.h"
#include "policy/policy.h"

namespace kvasir {

Result<Policy> make_policy_none(const PolicyParams& params) {
  if (params.budget != 0 || params.budget_percent != 0) {
    const std::string value = params.budget != 0 ? std::to_string(params.budget)
                                                 : number_text(params.budget_percent) + "%";
    return Error{"--kv-budget " + value +
                 ": policy none keeps every token; choose a --kv-policy that evicts, or leave the "
                 "budget out"};
  }
  if (auto ok = check_params("none", params, 0); !ok) return Error{ok.error()};
  Policy policy;
  policy.name = "none";
  policy.budget = fixed_budget(std::numeric_limits<int32_t>::max());
  policy.sinks = params.sinks;
  return policy;
}

}  // namespace kvasir
