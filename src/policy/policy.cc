#include "policy/policy.h"

#include <algorithm>
#include <cassert>

namespace kvasir {

Needs Needs::operator|(const Needs& other) const {
  Needs both;
  both.confidence = confidence || other.confidence;
  both.step_mass = step_mass || other.step_mass;
  both.observed_queries = std::max(observed_queries, other.observed_queries);
  both.observe_every = std::max(observe_every, other.observe_every);
  both.column_sums = column_sums || other.column_sums;
  both.rows = rows || other.rows;
  both.keys = keys || other.keys;
  both.heads = heads == HeadReduction::kMax ? heads : other.heads;
  return both;
}

void Ranker::observe(const Mass& /*seen*/, std::span<float> /*state*/) const {}

void Ranker::arrive(const ArrivingRows& /*rows*/, std::span<float> /*state*/) const {}

Needs Policy::needs() const {
  Needs all;
  if (budget) all = all | budget->needs();
  if (ranker) all = all | ranker->needs();
  return all;
}

}  // namespace kvasir
