#include "kernels/row_tiles.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/kernels.h"

namespace kvasir {
namespace {

constexpr int32_t kVectorBytes = 64;
constexpr std::byte kFlip{0x80};  // adds 128

size_t z(int64_t n) { return static_cast<size_t>(n); }

// The bytes of slots [first, end) of a quad's dword, least significant first.
uint32_t byte_mask(int32_t first, int32_t end) {
  const auto below = [](int32_t n) { return n >= 4 ? ~uint32_t{0} : (uint32_t{1} << 8 * n) - 1; };
  return below(end) & ~below(first);
}

// to[c] = the masked bytes of (low[c], high[c]) read as one number and shifted right, to[c]'s own
// elsewhere; 0 < shift < 32, n whole vectors. `to` may be `low`: each vector is read before it is
// written.
void funnel_dwords(const std::byte* low, const std::byte* high, int32_t shift, uint32_t mask,
                   std::byte* to, int32_t n) {
  constexpr int32_t kDwords = kVectorBytes / 4;
  const int32_t left = 32 - shift;
  for (int32_t first = 0; first < n; first += kDwords) {
    const size_t at = z(first) * 4;
    uint32_t a[kDwords], b[kDwords], old[kDwords];
    std::memcpy(a, low + at, sizeof(a));
    std::memcpy(b, high + at, sizeof(b));
    std::memcpy(old, to + at, sizeof(old));
    for (int32_t c = 0; c < kDwords; ++c) {
      old[c] = ((a[c] >> shift | b[c] << left) & mask) | (old[c] & ~mask);
    }
    std::memcpy(to + at, old, sizeof(old));
  }
}

// The same without a shift.
void mask_dwords(const std::byte* from, uint32_t mask, std::byte* to, int32_t n) {
  for (int32_t c = 0; c < n; ++c) {
    uint32_t a, old;
    std::memcpy(&a, from + 4 * z(c), sizeof(a));
    std::memcpy(&old, to + 4 * z(c), sizeof(old));
    old = (a & mask) | (old & ~mask);
    std::memcpy(to + 4 * z(c), &old, sizeof(old));
  }
}

}  // namespace

bool has_tiles(const Packing& packing, int32_t head_dim) {
  return packing.bits == 8 && packing.levels == Levels::kSigned && !packing.has_zero() &&
         head_dim % kVectorBytes == 0;
}

size_t RowTiles::bytes() const { return kPageSlots * packing.row_bytes(head_dim); }

size_t RowTiles::code_bytes() const { return kPageSlots * z(head_dim); }

size_t RowTiles::code_at(int32_t slot, int32_t channel) const {
  return layout == RowLayout::kKeyTile
             ? z(channel / 4) * 4 * kPageSlots + z(slot) * 4 + z(channel % 4)
             : z(slot / 4) * 4 * z(head_dim) + z(channel) * 4 + z(slot % 4);
}

size_t RowTiles::scale_at(int32_t slot, int32_t group) {
  return (z(group) * kPageSlots + z(slot)) * 2;
}

void RowTiles::put(const std::byte* row, std::byte* tile, int32_t slot) const {
  assert(slot >= 0 && slot < kPageSlots);
  const int32_t n_groups = packing.n_groups(head_dim);
  for (int32_t g = 0; g < n_groups; ++g, row += 2) {
    std::memcpy(tile + code_bytes() + scale_at(slot, g), row, 2);
  }
  const std::byte flip = layout == RowLayout::kKeyTile ? kFlip : std::byte{0};
  for (int32_t d = 0; d < head_dim; ++d) tile[code_at(slot, d)] = row[d] ^ flip;
}

void RowTiles::get(const std::byte* tile, int32_t slot, std::byte* row) const {
  CodedSide side;
  point(tile, 0, side);
  get(side, slot, row);
}

void RowTiles::get(const CodedSide& side, int32_t slot, std::byte* row) const {
  assert(slot >= 0 && slot < kPageSlots);
  const int32_t n_groups = packing.n_groups(head_dim);
  for (int32_t g = 0; g < n_groups; ++g, row += 2) {
    std::memcpy(row, side.scales + scale_at(slot, g), 2);
  }
  const std::byte flip = layout == RowLayout::kKeyTile ? kFlip : std::byte{0};
  for (int32_t d = 0; d < head_dim; ++d) row[d] = side.rows[code_at(slot, d)] ^ flip;
}

// Four channels of a slot are a dword, and slots lie side by side.
void RowTiles::move_keys(const std::byte* from, int32_t from_slot, std::byte* to, int32_t to_slot,
                         int32_t n) const {
  for (int32_t quad = 0; quad < head_dim / 4; ++quad) {
    const size_t at = z(quad) * 4 * kPageSlots;
    std::memmove(to + at + z(to_slot) * 4, from + at + z(from_slot) * 4, z(n) * 4);
  }
}

// Four slots of a channel are a dword: each of the target's is cut out of two neighbours.
void RowTiles::move_values(const std::byte* from, int32_t from_slot, std::byte* to, int32_t to_slot,
                           int32_t n) const {
  const int32_t distance = from_slot - to_slot;
  const size_t quad_bytes = z(head_dim) * 4;
  for (int32_t quad = to_slot / 4; quad * 4 < to_slot + n; ++quad) {
    const uint32_t mask = byte_mask(std::max(0, to_slot - quad * 4), to_slot + n - quad * 4);
    const int32_t first = quad * 4 + distance;  // of the source; may be outside at both ends
    const int32_t low = (first + 4) / 4 - 1;    // rounded down; first >= -3
    const auto quad_at = [&](int32_t q) {
      return from + z(std::clamp(q, 0, kPageSlots / 4 - 1)) * quad_bytes;
    };
    std::byte* target = to + z(quad) * quad_bytes;
    if (first == 4 * low && mask == ~uint32_t{0}) {
      std::memmove(target, quad_at(low), quad_bytes);
    } else if (first == 4 * low) {
      mask_dwords(quad_at(low), mask, target, head_dim);
    } else {
      funnel_dwords(quad_at(low), quad_at(low + 1), 8 * (first - 4 * low), mask, target, head_dim);
    }
  }
}

void RowTiles::move(const std::byte* from, int32_t from_slot, std::byte* to, int32_t to_slot,
                    int32_t n) const {
  assert(from_slot >= 0 && from_slot + n <= kPageSlots);
  assert(to_slot >= 0 && to_slot + n <= kPageSlots);
  assert(from != to || to_slot <= from_slot);
  if (n <= 0) return;
  if (layout == RowLayout::kKeyTile) {
    move_keys(from, from_slot, to, to_slot, n);
  } else {
    move_values(from, from_slot, to, to_slot, n);
  }
  for (int32_t g = 0; g < packing.n_groups(head_dim); ++g) {
    std::memmove(to + code_bytes() + scale_at(to_slot, g),
                 from + code_bytes() + scale_at(from_slot, g), z(n) * 2);
  }
}

void RowTiles::point(const std::byte* tile, int32_t slot, CodedSide& side) const {
  assert(slot % kLaneSlots == 0 && slot < kPageSlots);
  side.packing = packing;
  side.head_dim = head_dim;
  side.layout = layout;
  side.rows = tile + code_at(slot, 0);
  side.scales = tile + code_bytes() + scale_at(slot, 0);
}

}  // namespace kvasir
