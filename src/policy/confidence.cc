#include "policy/confidence.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace kvasir {
namespace {

// A logit of +inf passes through a maximum unharmed but makes the sums NaN.
bool usable(const KvKernels::LogitSums& sums) {
  return sums.finite && std::isfinite(sums.max1) && std::isfinite(sums.z) && sums.z > 0 &&
         std::isfinite(sums.s);
}

}  // namespace

Confidence confidence_of(const KvKernels::LogitSums& sums, int32_t vocab_size) {
  assert(vocab_size >= 1);
  Confidence out;
  if (!usable(sums)) return out;
  out.valid = true;
  if (vocab_size == 1) {
    out.c = 1;
    out.p1 = 1;
    out.margin = std::numeric_limits<double>::infinity();
    return out;
  }
  // With l relative to the maximum, ln p = l - ln Z, so H = -sum p ln p = ln Z - S / Z.
  const double ratio = std::exp(static_cast<double>(sums.max2) - sums.max1);  // p2 / p1
  out.entropy = std::max(0.0, std::log(sums.z) - sums.s / sums.z);
  out.margin = static_cast<double>(sums.max1) - sums.max2;
  out.p1 = std::min(1.0, 1.0 / sums.z);
  const double peakedness = std::max(0.0, 1.0 - out.entropy / std::log(vocab_size));
  out.c = std::min(1.0, 0.4 * peakedness + 0.3 / (1.0 + ratio) + 0.3 * out.p1);
  return out;
}

}  // namespace kvasir
