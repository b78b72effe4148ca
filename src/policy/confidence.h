// Confidence of a next-token distribution: CONF-KV (arXiv 2605.24786), section "Confidence".
//
//   c = 0.4 (1 - H / ln V) + 0.3 sigmoid(ln p1 - ln p2) + 0.3 p1
//
// from pre-temperature logits; H is the entropy, p1 >= p2 the two largest probabilities, V the
// vocabulary size. sigmoid(ln p1 - ln p2) = p1 / (p1 + p2), so no logarithm of p is taken.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace kvasir {

struct Confidence {
  double c = 0;        ///< in [0.15, 1]; 0 for logits with NaN or without a finite value
  double entropy = 0;  ///< nats
  double margin = 0;   ///< ln p1 - ln p2 >= 0; infinity without a second finite logit
  double p1 = 0;       ///< largest probability
  bool valid = false;  ///< false: c is 0 because the logits were invalid
};

/// Confidence of `vocab_size` logits from their sums (one pass, kernels.h). A one-hot distribution
/// gives exactly 1, a uniform one 0.15 + 0.3 / V; adding a constant to all logits changes nothing.
/// Invalid: sums.finite is false, or a logit is +inf (its sums are not finite).
/// Requires: vocab_size >= 1. A vocabulary of one gives c = 1.
Confidence confidence_of(const KvKernels::LogitSums& sums, int32_t vocab_size);

}  // namespace kvasir
