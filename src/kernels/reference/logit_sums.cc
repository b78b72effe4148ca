#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace kvasir::reference {

KvKernels::LogitSums logit_sums(const float* logits, int32_t n) {
  assert(n >= 1);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  KvKernels::LogitSums sums{};
  sums.max1 = sums.max2 = -kInfinity;
  for (int32_t i = 0; i < n; ++i) {
    if (std::isnan(logits[i])) return sums;
    if (logits[i] > sums.max1) {
      sums.max2 = sums.max1;
      sums.max1 = logits[i];
      sums.argmax = i;
    } else if (logits[i] > sums.max2) {
      sums.max2 = logits[i];
    }
  }
  sums.finite = std::isfinite(sums.max1);
  if (!sums.finite) return sums;
  for (int32_t i = 0; i < n; ++i) {
    if (logits[i] == -kInfinity) continue;
    const double x = static_cast<double>(logits[i]) - static_cast<double>(sums.max1);
    const double p = std::exp(x);
    sums.z += p;
    sums.s += x * p;
  }
  return sums;
}

}  // namespace kvasir::reference
