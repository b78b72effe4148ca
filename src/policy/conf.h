// CONF-KV as a set of defaults: `conf` has the paper's, `conf+` those that measured best. conf.cc
// has the formulas.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "policy/policy.h"

namespace kvasir {

struct ConfDefaults {
  std::string_view name;
  int32_t high = 128;       ///< tokens of a sure step where no flag gives any
  int32_t low = 256;        ///< of an unsure one
  double high_share = 0.5;  ///< high as share of --kv-budget
  double alpha = 0.65;      ///< weight of attention
  double lambda = 0.90;     ///< share of the past in the average
  int32_t protect = 32;     ///< newest tokens that stay
  AttentionScale scale = AttentionScale::kMinMax;
  bool values = false;            ///< weigh attention by the norm of the value
  bool always_confidence = true;  ///< ask for c also where both budgets are equal, to report it
};

/// Makes a policy of CONF-KV's kind: the defaults, and what params set. Fails as make_policy does.
Result<Policy> make_conf(const ConfDefaults& defaults, const PolicyParams& params);

}  // namespace kvasir
