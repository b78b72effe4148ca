// Policy `none`: every token stays; the full cache that all others are measured against.
//
// Formula: no limit, no ranker. The only policy that never evicts. Sink tokens stay like all
// others, so --kv-sinks is accepted; a budget is refused.
#include <limits>
#include <memory>

#include "policy/checks.h"
#include "policy/policy.h"

namespace kvasir {
namespace {

class NoLimit final : public BudgetRule {
 public:
  int32_t tokens(const StepState&, int32_t, int32_t) const override { return max_tokens(); }
  int32_t max_tokens() const override { return std::numeric_limits<int32_t>::max(); }
};

}  // namespace

Result<Policy> make_policy_none(const PolicyParams& params) {
  if (params.budget != 0) {
    return Error{"--kv-budget " + std::to_string(params.budget) +
                 ": policy none keeps every token; choose --kv-policy window or conf, or leave the "
                 "budget out"};
  }
  if (auto ok = check_no_conf_flags("none", params); !ok) return Error{ok.error()};
  if (auto ok = check_at_least("--kv-sinks", params.sinks, 0); !ok) return Error{ok.error()};
  Policy policy;
  policy.name = "none";
  policy.budget = std::make_unique<NoLimit>();
  policy.sinks = params.sinks;
  return policy;
}

}  // namespace kvasir
