// Packed rows: where the codes of a compressed row lie, and which values they stand for.
//
// A row is [scales of its groups][codes]. Codes lie in strips of kStripChannels channels, the last
// strip of a row is shorter where head_dim asks for it; n is its number of channels rounded up to
// a multiple of 8 (unused codes are 0 and never read as values). A strip of b bits is one or two
// planes, one after the other:
//   b = 8     n channels: byte i is channel i (not rounded up)
//   b = 4, 5  nibbles, n / 2 bytes: byte j holds channel j (low) and channel j + n / 2 (high)
//   b = 2, 3  crumbs, n / 4 bytes: byte j holds channels 4j .. 4j + 3, the lowest bits first
//   b = 3, 5  and one more bit, the highest of the code, n / 8 bytes: bit i % 8 of byte i / 8
// Planes unpack with whole vectors: a nibble plane is widened once and shifted, the others are one
// word shifted by another amount in every lane.
// Knows no format: src/format/ decides bits, groups and scales. Pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kvasir {

inline constexpr int32_t kStripChannels = 32;

/// What a code stands for before it is scaled.
enum class Levels {
  kSigned,    ///< 8 bits, two's complement
  kUnsigned,  ///< 2, 3, 4, 5 or 8 bits: 0 .. 2^bits - 1
  kNf4,       ///< 4 bits: kNf4Levels
};

/// NormalFloat-4: quantiles of the normal distribution scaled to [-1, 1], 0 exact (Dettmers et al.
/// 2023, arXiv 2305.14314, appendix E).
inline constexpr std::array<float, 16> kNf4Levels = {-1.0f,
                                                     -0.6961928009986877f,
                                                     -0.5250730514526367f,
                                                     -0.39491748809814453f,
                                                     -0.28444138169288635f,
                                                     -0.18477343022823334f,
                                                     -0.09105003625154495f,
                                                     0.0f,
                                                     0.07958029955625534f,
                                                     0.16093020141124725f,
                                                     0.24611230194568634f,
                                                     0.33791524171829224f,
                                                     0.44070982933044434f,
                                                     0.5626170039176941f,
                                                     0.7229568362236023f,
                                                     1.0f};

/// How a level becomes a value. Scales, zeros and means are binary16, little endian; "group" ones
/// lie at the start of the row, "channel" ones in the bytes that a block shares.
enum class Scaling {
  kGroup,          ///< level * scale; row: scale of each group
  kGroupZero,      ///< level * scale + zero; row: scale and zero of each group
  kGroupZeroMean,  ///< the same + mean; shared: mean of each channel
  kChannel,        ///< level * scale; shared: scale of each channel
  kChannelZero,    ///< level * scale + zero; shared: all scales, then all zeros
};

/// How the rows of one format are packed.
struct Packing {
  Levels levels = Levels::kUnsigned;
  int32_t bits = 8;
  /// One with a zero for kUnsigned, one without for kSigned, kGroup for kNf4.
  Scaling scaling = Scaling::kGroupZero;
  int32_t group_channels = kStripChannels;  ///< a multiple of kStripChannels
  /// The channels left over after whole groups: a shorter group, or part of the last whole one.
  bool rest_joins_last = false;

  bool has_groups() const {
    return scaling != Scaling::kChannel && scaling != Scaling::kChannelZero;
  }
  bool has_zero() const { return scaling != Scaling::kGroup && scaling != Scaling::kChannel; }
  /// Groups of a row; 0 where channels have the scales.
  int32_t n_groups(int32_t head_dim) const {
    if (!has_groups()) return 0;
    const int32_t rest = rest_joins_last ? 0 : group_channels - 1;
    return std::max(1, (head_dim + rest) / group_channels);
  }
  /// Bytes of the scales at the start of a row.
  size_t scale_bytes(int32_t head_dim) const {
    return static_cast<size_t>(n_groups(head_dim)) * (has_zero() ? 4 : 2);
  }
  size_t code_bytes(int32_t head_dim) const {
    const auto channels = static_cast<size_t>(head_dim);
    return bits == 8 ? channels : (channels + 7) / 8 * static_cast<size_t>(bits);
  }
  size_t row_bytes(int32_t head_dim) const { return scale_bytes(head_dim) + code_bytes(head_dim); }
};

/// Some rows of one KV head and one block.
struct PackedRows {
  Packing packing;
  int32_t head_dim;
  int32_t n_rows;
  const std::byte* rows;    ///< row r at rows + r * packing.row_bytes(head_dim)
  const std::byte* shared;  ///< what `packing.scaling` says; else unused
};

/// Some bits of a code inside one byte.
struct CodePart {
  size_t byte = 0;
  int32_t shift = 0;
  int32_t bits = 0;  ///< 0: no such part
};

/// The one or two parts of channel d's code, lowest bits first; `byte` counts from the first code.
constexpr std::array<CodePart, 2> code_parts(int32_t bits, int32_t head_dim, int32_t d) {
  if (bits == 8) return {{{static_cast<size_t>(d), 0, 8}, {}}};
  const int32_t first = d / kStripChannels * kStripChannels;
  const int32_t i = d - first;
  const int32_t n = (std::min(kStripChannels, head_dim - first) + 7) / 8 * 8;
  const int32_t start = first / 8 * bits;
  CodePart low;
  if (bits >= 4) {
    low = {static_cast<size_t>(start + i % (n / 2)), i / (n / 2) * 4, 4};
  } else {
    low = {static_cast<size_t>(start + i / 4), i % 4 * 2, 2};
  }
  if (bits == low.bits) return {{low, {}}};
  const int32_t plane = start + n / 8 * low.bits;
  return {{low, {static_cast<size_t>(plane + i / 8), i % 8, 1}}};
}

/// The code of channel d.
inline uint32_t get_code(const std::byte* codes, int32_t bits, int32_t head_dim, int32_t d) {
  uint32_t code = 0;
  int32_t done = 0;
  for (const CodePart& part : code_parts(bits, head_dim, d)) {
    if (part.bits == 0) break;
    const uint32_t mask = (1u << part.bits) - 1;
    code |= (std::to_integer<uint32_t>(codes[part.byte]) >> part.shift & mask) << done;
    done += part.bits;
  }
  return code;
}

/// Writes the codes of a row: what get_code reads. Unused bits become 0.
/// @param codes  [head_dim], each below 2^bits
/// @param out    the code_bytes(head_dim) bytes of a packing of `bits`
void pack_codes(int32_t bits, int32_t head_dim, const uint8_t* codes, std::byte* out);

}  // namespace kvasir
