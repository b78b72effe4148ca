#include "policy/policy.h"

#include <algorithm>

namespace kvasir {

Needs Needs::operator|(const Needs& other) const {
  Needs both;
  both.confidence = confidence || other.confidence;
  both.step_mass = step_mass || other.step_mass;
  both.observed_queries = std::max(observed_queries, other.observed_queries);
  return both;
}

void Ranker::observe(std::span<const float> /*mass*/, int32_t /*n_fresh*/, bool /*prefill*/,
                     std::span<float> /*state*/) const {}

Needs Policy::needs() const {
  Needs all;
  if (budget) all = all | budget->needs();
  if (ranker) all = all | ranker->needs();
  return all;
}

}  // namespace kvasir
