// IEEE binary16 values as bits, in portable C++: what a stored element means.
//
// Decides the rounding of a single value (nearest even, overflow to infinity, subnormals kept,
// NaN stays NaN). Does not know rows or pages; the kernels convert whole vectors with the
// processor's own instructions and must agree with this. Pure functions, safe in any thread.
#pragma once

#include <bit>
#include <cstdint>

namespace kvasir {

inline constexpr uint16_t kHalfInfinity = 0x7C00;
inline constexpr uint16_t kHalfMinusInfinity = 0xFC00;

/// The exact value of a binary16 (every one is a binary32).
constexpr float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu;
  const uint32_t fraction = half & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1Fu ? 0xFFu : exponent + 112u;  // bias 15 -> 127
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

/// The nearest binary16, ties to even (IEEE 754-2019, section 4.3.1).
constexpr uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {  // NaN: quiet, the upper payload bits kept
    return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x1FFu));
  }
  if (magnitude >= 0x477FF000u) {  // from 65520 on the nearest is infinity
    return static_cast<uint16_t>(sign | kHalfInfinity);
  }
  const uint32_t exponent = magnitude >> 23;
  // Below 2^-14 the result is subnormal: the step is 2^-24 and more bits of the fraction fall off.
  const uint32_t shift = exponent >= 113 ? 13 : 126 - exponent;
  if (shift > 24) return sign;  // below half of the smallest subnormal
  const uint32_t fraction =
      exponent >= 113 ? magnitude - (112u << 23) : (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t kept = fraction >> shift;
  const uint32_t rest = fraction & ((1u << shift) - 1);
  const uint32_t middle = 1u << (shift - 1);
  const uint32_t up = (rest > middle || (rest == middle && (kept & 1u) != 0)) ? 1u : 0u;
  return static_cast<uint16_t>(sign |
                               (kept + up));  // a carry moves into the exponent, as it should
}

}  // namespace kvasir
