// K and V of a coded page as tiles of bytes that dot products read, with their scales per slot.
//
// A key tile holds, for each four channels, one dword for each of 64 slots; a value tile holds, for
// each four slots, one dword for each channel. Codes are not scaled: scales go to sums. Compiled
// once, beside the AVX-512 table.
#ifndef KVASIR_KERNELS_HIGHWAY_CODED_TILES_INL_H_
#define KVASIR_KERNELS_HIGHWAY_CODED_TILES_INL_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>

#include "kernels/coded_page.h"
#include "kernels/highway/vnni-inl.h"
#include "kernels/prepared_queries.h"

HWY_PUSH_ATTRIBUTES(KVASIR_VNNI_ATTRIBUTES)
namespace kvasir::highway::HWY_NAMESPACE {
namespace {

constexpr int32_t kChunk = 64;  // channels of one vector of bytes
constexpr int32_t kMostChunks = (kMaxHeadDim + kChunk - 1) / kChunk;
constexpr int32_t kMostGroups = PreparedQueries::kMostGroups;
constexpr int32_t kQuads = kPageSlots / 4;

/// Scale, and zero, of each slot in each group of channels: [group][slot]. Slots past the page's
/// last hold 0.
struct SlotScales {
  int32_t n_groups = 0;  // 0: channels have the scales
  HWY_ALIGN float scale[kMostGroups * kPageSlots];
  HWY_ALIGN float zero[kMostGroups * kPageSlots];
};

/// Two halfs of every row, from byte `offset` on, as f32. Where a row ends before the second, that
/// is 0.
HWY_INLINE void read_two_halfs(const CodedSide& side, int32_t n_slots, size_t offset, float* first,
                               float* second) {
  HWY_ALIGN uint32_t raw[kPageSlots];
  const size_t row_bytes = side.packing.row_bytes(side.head_dim);
  const auto* from = reinterpret_cast<const uint8_t*>(side.rows) + offset;
  if (offset + sizeof(uint32_t) <= row_bytes) {
    int32_t slot = 0;
    for (; slot + 8 <= n_slots; slot += 8) {
      HWY_UNROLL(8)
      for (int32_t i = 0; i < 8; ++i, from += row_bytes) {
        std::memcpy(raw + slot + i, from, sizeof(uint32_t));
      }
    }
    for (; slot < n_slots; ++slot, from += row_bytes) {
      std::memcpy(raw + slot, from, sizeof(uint32_t));
    }
  } else {
    for (int32_t slot = 0; slot < n_slots; ++slot, from += row_bytes) {
      raw[slot] = 0;
      std::memcpy(raw + slot, from, sizeof(uint16_t));
    }
  }
  for (int32_t slot = n_slots; slot < kPageSlots; ++slot) raw[slot] = 0;
  for (int32_t slot = 0; slot < kPageSlots; slot += kLanes) {
    const Bytes both = _mm512_load_si512(raw + slot);
    const Bytes high = _mm512_srli_epi32(both, 16);
    store(Vec{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(both))}, first + slot);
    store(Vec{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(high))}, second + slot);
  }
}

/// Those of a tile lie in the order of SlotScales.
HWY_INLINE void read_tile_scales(const CodedSide& side, int32_t n_slots, SlotScales& scales) {
  const auto* from = reinterpret_cast<const uint16_t*>(side.scales);
  for (int32_t g = 0; g < scales.n_groups; ++g, from += kPageSlots) {
    for (int32_t slot = 0; slot < kPageSlots; slot += kLanes) {
      const __m256i halfs = _mm256_maskz_loadu_epi16(first_lane_mask(n_slots - slot), from + slot);
      store(Vec{_mm512_cvtph_ps(halfs)}, scales.scale + g * kPageSlots + slot);
    }
  }
}

HWY_INLINE void read_scales(const CodedSide& side, int32_t n_slots, SlotScales& scales) {
  const Packing& packing = side.packing;
  scales.n_groups = packing.n_groups(side.head_dim);
  if (side.layout != RowLayout::kRows) return read_tile_scales(side, n_slots, scales);
  if (packing.has_zero()) {
    for (int32_t g = 0; g < scales.n_groups; ++g) {
      read_two_halfs(side, n_slots, static_cast<size_t>(g) * 4, scales.scale + g * kPageSlots,
                     scales.zero + g * kPageSlots);
    }
    return;
  }
  // Scales alone: those of two groups, or of one with bytes that are not used.
  for (int32_t g = 0; g < scales.n_groups; g += 2) {
    const int32_t next = std::min(g + 1, scales.n_groups - 1);
    float* second = next > g ? scales.scale + next * kPageSlots : scales.zero;
    read_two_halfs(side, n_slots, static_cast<size_t>(g) * 2, scales.scale + g * kPageSlots,
                   second);
  }
}

/// Crumbs of 32 channels in each half: 8 bytes become 32.
HWY_INLINE Bytes spread_crumbs(const uint8_t* first, const uint8_t* second) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
  const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(second));
  const Bytes bytes = _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(low, high));
  const Bytes part1 = _mm512_slli_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(0x0C)), 6);
  const Bytes part2 = _mm512_slli_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(0x30)), 12);
  const Bytes part3 = _mm512_slli_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(0xC0)), 18);
  const Bytes part0 = _mm512_and_si512(bytes, _mm512_set1_epi32(0x03));
  return _mm512_or_si512(_mm512_or_si512(part0, part1), _mm512_or_si512(part2, part3));
}

/// Nibbles of 32 channels in each half: byte j of 16 holds channels j and j + 16.
HWY_INLINE Bytes spread_nibbles(const uint8_t* first, const uint8_t* second) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
  const Bytes both = _mm512_castsi256_si512(_mm256_set_m128i(high, low));
  const Bytes twice = _mm512_shuffle_i64x2(both, both, 0x50);  // low low high high
  const Bytes shift = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
  return _mm512_and_si512(_mm512_srlv_epi64(twice, shift), _mm512_set1_epi8(15));
}

HWY_INLINE Bytes add_plane(Bytes codes, const uint8_t* first, const uint8_t* second, int32_t bit) {
  uint32_t low, high;
  std::memcpy(&low, first, sizeof(low));
  std::memcpy(&high, second, sizeof(high));
  const __mmask64 set = uint64_t{high} << 32 | low;
  return _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(static_cast<char>(1 << bit)));
}

/// Codes of `n` <= 64 channels of a chunk as bytes. n is a multiple of 32 below 8 bits; bytes past
/// it are 0 for 8 bits, else those of the first 32 channels.
template <int kBits>
HWY_INLINE Bytes load_codes(const uint8_t* row_codes, int32_t chunk, int32_t n) {
  constexpr int32_t kStripBytes = kBits * kStripChannels / 8;
  if constexpr (kBits == 8) {
    const uint8_t* from = row_codes + chunk * kChunk;
    if (n >= kChunk) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi8((uint64_t{1} << n) - 1, from);
  } else {
    const uint8_t* first = row_codes + 2 * chunk * kStripBytes;
    const uint8_t* second = n > kStripChannels ? first + kStripBytes : first;
    constexpr int32_t kPlane = kBits >= 4 ? 16 : 8;
    const Bytes codes = kBits >= 4 ? spread_nibbles(first, second) : spread_crumbs(first, second);
    if constexpr (kBits == 3 || kBits == 5) {
      return add_plane(codes, first + kPlane, second + kPlane, kBits - 1);
    }
    return codes;
  }
}

/// Fetches a page of packed rows; null: nothing.
HWY_INLINE Prefetcher fetch_rows(const std::byte* rows, const CodedSide& like) {
  if (rows == nullptr) return {};
  const auto* at = reinterpret_cast<const uint16_t*>(rows);

  return {at, at + kPageSlots * like.packing.row_bytes(like.head_dim) / sizeof(uint16_t)};
}

/// The codes of `kRows` rows from `slot` on, 0 for slots at or past n_slots.
template <int kBits, int32_t kRows>
HWY_INLINE void load_rows(const uint8_t* codes, size_t row_bytes, int32_t chunk, int32_t n_channels,
                          int32_t slot, int32_t n_slots, Bytes* HWY_RESTRICT block) {
  const uint8_t* row = codes + static_cast<size_t>(slot) * row_bytes;
  if (slot + kRows <= n_slots) {
    HWY_UNROLL(16)
    for (int32_t r = 0; r < kRows; ++r, row += row_bytes) {
      block[r] = load_codes<kBits>(row, chunk, n_channels);
    }
    return;
  }
  for (int32_t r = 0; r < kRows; ++r, row += row_bytes) {
    block[r] =
        slot + r < n_slots ? load_codes<kBits>(row, chunk, n_channels) : _mm512_setzero_si512();
  }
}

HWY_INLINE const uint8_t* codes_of(const CodedSide& side) {
  return reinterpret_cast<const uint8_t*>(side.rows) + side.packing.scale_bytes(side.head_dim);
}

/// tile[channel quad][slot][4 channels]. `flip` adds 128, so that signed codes become unsigned.
template <int kBits>
HWY_NOINLINE void make_key_tile(const CodedSide& side, int32_t n_slots, uint8_t flip,
                                Prefetcher& ahead, uint8_t* HWY_RESTRICT tile) {
  const Bytes flips = _mm512_set1_epi8(static_cast<char>(flip));
  const size_t row_bytes = side.packing.row_bytes(side.head_dim);
  for (int32_t chunk = 0; chunk * kChunk < side.head_dim; ++chunk) {
    const int32_t n = std::min(kChunk, side.head_dim - chunk * kChunk);
    for (int32_t slot = 0; slot < n_slots; slot += 16) {
      for (int32_t i = 0; i < 4; ++i) ahead.step();
      Bytes block[16];
      load_rows<kBits, 16>(codes_of(side), row_bytes, chunk, n, slot, n_slots, block);
      transpose_dwords(block);
      uint8_t* to = tile + static_cast<ptrdiff_t>(chunk) * kChunk * kPageSlots + slot * 4;
      HWY_UNROLL(16)
      for (int32_t quad = 0; quad < 16; ++quad) {
        _mm512_store_si512(to + quad * 4 * kPageSlots, _mm512_xor_si512(block[quad], flips));
      }
    }
  }
}

/// tile[slot quad][channel, padded to chunks][4 slots].
template <int kBits>
HWY_NOINLINE void make_value_tile(const CodedSide& side, int32_t n_slots, Prefetcher& ahead,
                                  uint8_t* HWY_RESTRICT tile) {
  const int32_t n_chunks = (side.head_dim + kChunk - 1) / kChunk;
  const size_t row_bytes = side.packing.row_bytes(side.head_dim);
  for (int32_t chunk = 0; chunk < n_chunks; ++chunk) {
    const int32_t n = std::min(kChunk, side.head_dim - chunk * kChunk);
    for (int32_t slot = 0; slot < n_slots; slot += 4) {
      ahead.step();
      Bytes block[4];
      load_rows<kBits, 4>(codes_of(side), row_bytes, chunk, n, slot, n_slots, block);
      interleave_rows(block);
      uint8_t* to = tile + (static_cast<ptrdiff_t>(slot / 4) * n_chunks + chunk) * 4 * kChunk;
      HWY_UNROLL(4)
      for (int32_t i = 0; i < 4; ++i) _mm512_store_si512(to + i * 64, block[i]);
    }
  }
}

/// The key tile of a page: its own, or one that is made in `room`.
HWY_INLINE const uint8_t* key_tile(const CodedSide& side, int32_t n_slots, Prefetcher& ahead,
                                   uint8_t* room) {
  if (side.layout == RowLayout::kKeyTile) return reinterpret_cast<const uint8_t*>(side.rows);
  switch (side.packing.bits) {
    case 2:
      make_key_tile<2>(side, n_slots, 0, ahead, room);
      break;
    case 3:
      make_key_tile<3>(side, n_slots, 0, ahead, room);
      break;
    case 4:
      make_key_tile<4>(side, n_slots, 0, ahead, room);
      break;
    case 5:
      make_key_tile<5>(side, n_slots, 0, ahead, room);
      break;
    default:
      assert(side.packing.bits == 8);
      make_key_tile<8>(side, n_slots, side.packing.levels == Levels::kSigned ? 128 : 0, ahead,
                       room);
  }
  return room;
}

/// The value tile of a page, likewise.
HWY_INLINE const uint8_t* value_tile(const CodedSide& side, int32_t n_slots, Prefetcher& ahead,
                                     uint8_t* room) {
  if (side.layout == RowLayout::kValueTile) return reinterpret_cast<const uint8_t*>(side.rows);
  switch (side.packing.bits) {
    case 2:
      make_value_tile<2>(side, n_slots, ahead, room);
      break;
    case 3:
      make_value_tile<3>(side, n_slots, ahead, room);
      break;
    case 4:
      make_value_tile<4>(side, n_slots, ahead, room);
      break;
    case 5:
      make_value_tile<5>(side, n_slots, ahead, room);
      break;
    default:
      assert(side.packing.bits == 8);
      make_value_tile<8>(side, n_slots, ahead, room);
  }
  return room;
}

}  // namespace
}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_POP_ATTRIBUTES

#endif  // KVASIR_KERNELS_HIGHWAY_CODED_TILES_INL_H_
