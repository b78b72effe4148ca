// Policy `conf+`: CONF-KV (conf.cc) with other defaults, chosen by measurement.
//
// What differs from the paper, and why:
//   rank       attention is scaled by rank, so that one token with most of the mass does not push
//              all others to 0 and leave recency to decide
//   lambda     0.97: a half-life of 23 steps instead of 6.6
//   alpha 1    attention alone; protected tokens take recency's place
//   values     attention times the norm of the value, which is what a token adds to the output
//   budget     the same at each step: confidence does not set it (--kv-high does)
// All flags of `conf` apply.
#include "policy/conf.h"

namespace kvasir {
namespace {

constexpr ConfDefaults kDefaults = {
    .name = "conf+",
    .high = 256,
    .low = 256,
    .high_share = 1,
    .alpha = 1,
    .lambda = 0.97,
    .protect = 32,
    .scale = AttentionScale::kRank,
    .values = true,
    .always_confidence = false,
};

}  // namespace

Result<Policy> make_policy_conf_plus(const PolicyParams& params) {
  return make_conf(kDefaults, params);
}

}  // namespace kvasir
