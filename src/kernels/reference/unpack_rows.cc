#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/half.h"
#include "kernels/reference/reference.h"

namespace kvasir::reference {
namespace {

/// Half i of an array that need not be aligned.
float half_at(const std::byte* halfs, int32_t i) {
  uint16_t bits = 0;
  std::memcpy(&bits, halfs + static_cast<ptrdiff_t>(i) * 2, sizeof(bits));
  return half_to_float(bits);
}

float level_of(Levels levels, uint32_t code) {
  switch (levels) {
    case Levels::kSigned:
      return static_cast<float>(std::bit_cast<int8_t>(static_cast<uint8_t>(code)));
    case Levels::kNf4:
      return kNf4Levels[code];
    case Levels::kUnsigned:
      break;
  }
  return static_cast<float>(code);
}

/// Channel d of a row from its level. The product of a level of 8 bits and a scale of 11 is exact,
/// so that a fused multiply-add gives the same.
float scaled(const PackedRows& args, const std::byte* row, int32_t d, float level) {
  const Packing& packing = args.packing;
  const int32_t last = packing.n_groups(args.head_dim) - 1;
  const int32_t group = std::min(d / packing.group_channels, last);
  switch (packing.scaling) {
    case Scaling::kGroup:
      return level * half_at(row, group);
    case Scaling::kGroupZero:
      return level * half_at(row, 2 * group) + half_at(row, 2 * group + 1);
    case Scaling::kGroupZeroMean:
      return level * half_at(row, 2 * group) + half_at(row, 2 * group + 1) +
             half_at(args.shared, d);
    case Scaling::kChannel:
      return level * half_at(args.shared, d);
    case Scaling::kChannelZero:
      break;
  }
  return level * half_at(args.shared, d) + half_at(args.shared, args.head_dim + d);
}

}  // namespace

void unpack_rows(const PackedRows& args, float* out) {
  const Packing& packing = args.packing;
  assert(args.head_dim >= 1 && args.n_rows >= 0);
  for (int32_t r = 0; r < args.n_rows; ++r) {
    const std::byte* row = args.rows + static_cast<size_t>(r) * packing.row_bytes(args.head_dim);
    const std::byte* codes = row + packing.scale_bytes(args.head_dim);
    for (int32_t d = 0; d < args.head_dim; ++d) {
      const uint32_t code = get_code(codes, packing.bits, args.head_dim, d);
      *out++ = scaled(args, row, d, level_of(packing.levels, code));
    }
  }
}

}  // namespace kvasir::reference
