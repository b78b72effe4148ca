// From values to codes: what is admitted, how scales are rounded, how codes are chosen.
//
// One rule for all formats: a zero is rounded down to binary16, a scale up. So no value lies
// outside the levels, and a value is at most half a step (the stored scale) away from its level;
// only float rounding adds to that. Values are rounded to the nearest level, ties to even.
// Pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"

namespace kvasir {

inline constexpr float kMaxHalf = 65504.0f;

/// The value that is encoded for x: NaN counts as 0, and nothing exceeds the largest binary16.
inline float admitted(float x) { return std::isnan(x) ? 0.0f : std::clamp(x, -kMaxHalf, kMaxHalf); }

/// The largest binary16 that is not above x. Requires: |x| <= kMaxHalf.
uint16_t half_below(float x);

/// The smallest binary16 that is not below x. Requires: 0 <= x <= kMaxHalf.
uint16_t half_above(float x);

/// The nearest integer, ties to even. Requires: |x| < 2^22.
inline float nearest(float x) {
  constexpr float kShift = 0x1.8p23f;  // its step is 1: the addition rounds
  return x + kShift - kShift;
}

/// Scale and zero of a set of values as they are stored, both binary16: value = zero + step * code.
struct Steps {
  float step = 0;  ///< 0: all values are the zero
  float zero = 0;

  /// x in steps from the zero. Never divides by 0.
  float level(float x) const { return (x - zero) / (step > 0 ? step : 1.0f); }

  /// The code of an admitted value among 0 .. max_code.
  uint8_t code(float x, int32_t max_code) const {
    const float limit = static_cast<float>(max_code);
    return static_cast<uint8_t>(static_cast<int32_t>(std::clamp(nearest(level(x)), 0.0f, limit)));
  }

  /// The code of an admitted value among -max_code .. max_code, two's complement.
  uint8_t signed_code(float x, int32_t max_code) const {
    const float limit = static_cast<float>(max_code);
    return static_cast<uint8_t>(static_cast<int32_t>(std::clamp(nearest(level(x)), -limit, limit)));
  }
};

/// Levels from -max_code to max_code that reach max_abs.
inline Steps symmetric_steps(float max_abs, int32_t max_code) {
  return {half_to_float(half_above(max_abs / static_cast<float>(max_code))), 0};
}

/// Levels from 0 to max_code that span [low, high]. Requires: max_code >= 3.
inline Steps steps_between(float low, float high, int32_t max_code) {
  const float zero = half_to_float(half_below(low));
  return {half_to_float(half_above((high - zero) / static_cast<float>(max_code))), zero};
}

/// Writes the binary16 nearest to x at any address; returns what follows it.
inline std::byte* put_half(std::byte* to, float x) {
  const uint16_t half = float_to_half(x);
  std::memcpy(to, &half, sizeof(half));
  return to + sizeof(half);
}

}  // namespace kvasir
