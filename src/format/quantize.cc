#include "format/quantize.h"

#include <cassert>

namespace kvasir {

uint16_t half_below(float x) {
  assert(std::abs(x) <= kMaxHalf);
  const uint16_t half = float_to_half(x);
  if (half_to_float(half) <= x) return half;
  const bool negative = (half & 0x8000u) != 0;  // -0 too: what lies below it is 0x8001
  return static_cast<uint16_t>(negative ? half + 1 : half - 1);
}

uint16_t half_above(float x) {
  assert(x >= 0 && x <= kMaxHalf);
  const uint16_t half = float_to_half(x);
  return static_cast<uint16_t>(half_to_float(half) < x ? half + 1 : half);
}

}  // namespace kvasir
