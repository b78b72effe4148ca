// What Highway 1.0.3 lacks: dot products of bytes and of bf16, and how bytes are laid for them.
//
// AVX-512 with VNNI (and BF16) as intrinsics; everything here needs HWY_PUSH_ATTRIBUTES around its
// callers. Compiled once, beside the AVX-512 table.
#ifndef KVASIR_KERNELS_HIGHWAY_VNNI_INL_H_
#define KVASIR_KERNELS_HIGHWAY_VNNI_INL_H_

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/highway/simd-inl.h"

#define KVASIR_VNNI_ATTRIBUTES HWY_TARGET_STR ",avx512vnni"
#define KVASIR_BF16_ATTRIBUTES HWY_TARGET_STR ",avx512vnni,avx512bf16"

HWY_PUSH_ATTRIBUTES(KVASIR_VNNI_ATTRIBUTES)
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

using Bytes = __m512i;  // 64 codes, or 16 dwords of 4

/// sum[i] + the dot product of the four unsigned bytes of dword i with the four signed ones. Not
/// the intrinsic: GCC 12 copies every sum before it is added to, which halves the speed.
HWY_INLINE Bytes add_dot(Bytes sum, Bytes unsigned_bytes, Bytes signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
  return sum;
}

/// The first n of 16 lanes; none for n below 0, all from 16 on.
HWY_INLINE __mmask16 first_lane_mask(int32_t n) {
  return static_cast<__mmask16>((1u << std::clamp(n, 0, kLanes)) - 1);
}

/// The first n floats, zero beyond; reads nothing past them.
HWY_INLINE Vec first_lanes(const float* from, int32_t n) {
  return Vec{_mm512_maskz_loadu_ps(first_lane_mask(n), from)};
}

HWY_INLINE Bytes broadcast_dword(const void* from) {
  int32_t dword;
  std::memcpy(&dword, from, sizeof(dword));
  return _mm512_set1_epi32(dword);
}

/// 256 * high + low, which is below 2^31 in magnitude.
HWY_INLINE Bytes joined(Bytes high, Bytes low) {
  return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}

HWY_INLINE Vec to_float(Bytes dwords) { return Vec{_mm512_cvtepi32_ps(dwords)}; }

/// A matrix of 16 x 16 dwords, in place: row r's dword j goes to row j's dword r.
HWY_INLINE void transpose_dwords(Bytes* HWY_RESTRICT rows) {
  Bytes pairs[16];
  HWY_UNROLL(8)
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  HWY_UNROLL(4)
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  // Lane L of rows[4 a + j] now holds dword 4 L + j of rows 4 a .. 4 a + 3.
  HWY_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    pairs[j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x44);
    pairs[4 + j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xEE);
    pairs[8 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x44);
    pairs[12 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xEE);
  }
  HWY_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    rows[j] = _mm512_shuffle_i32x4(pairs[j], pairs[8 + j], 0x88);
    rows[4 + j] = _mm512_shuffle_i32x4(pairs[j], pairs[8 + j], 0xDD);
    rows[8 + j] = _mm512_shuffle_i32x4(pairs[4 + j], pairs[12 + j], 0x88);
    rows[12 + j] = _mm512_shuffle_i32x4(pairs[4 + j], pairs[12 + j], 0xDD);
  }
}

/// Four rows of 64 bytes to four vectors of 16 channels, each channel's four bytes side by side.
HWY_INLINE void interleave_rows(Bytes* HWY_RESTRICT rows) {
  // Dword 4 i + L goes to lane L, so that unpacking inside lanes gives channels in order.
  const Bytes order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int i = 0; i < 4; ++i) rows[i] = _mm512_permutexvar_epi32(order, rows[i]);
  const Bytes low01 = _mm512_unpacklo_epi8(rows[0], rows[1]);
  const Bytes high01 = _mm512_unpackhi_epi8(rows[0], rows[1]);
  const Bytes low23 = _mm512_unpacklo_epi8(rows[2], rows[3]);
  const Bytes high23 = _mm512_unpackhi_epi8(rows[2], rows[3]);
  rows[0] = _mm512_unpacklo_epi16(low01, low23);
  rows[1] = _mm512_unpackhi_epi16(low01, low23);
  rows[2] = _mm512_unpacklo_epi16(high01, high23);
  rows[3] = _mm512_unpackhi_epi16(high01, high23);
}

/// 64 unsigned numbers below 2^16, 16 in each vector, as their high bytes and their low bytes.
/// Dword 4 L + i of both holds numbers 16 i + 4 L .. 16 i + 4 L + 3.
HWY_INLINE void split_bytes(const Bytes* HWY_RESTRICT numbers, Bytes& high, Bytes& low) {
  const Bytes first = _mm512_packus_epi32(numbers[0], numbers[1]);
  const Bytes second = _mm512_packus_epi32(numbers[2], numbers[3]);
  const Bytes mask = _mm512_set1_epi16(255);
  high = _mm512_packus_epi16(_mm512_srli_epi16(first, 8), _mm512_srli_epi16(second, 8));
  low = _mm512_packus_epi16(_mm512_and_si512(first, mask), _mm512_and_si512(second, mask));
}

/// Where split_bytes puts numbers 4 quad .. 4 quad + 3: a byte offset.
HWY_INLINE uint32_t split_offset(int32_t quad) {
  const auto q = static_cast<uint32_t>(quad);
  return 4 * (q % 4 * 4 + q / 4);
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_POP_ATTRIBUTES

#endif  // KVASIR_KERNELS_HIGHWAY_VNNI_INL_H_
