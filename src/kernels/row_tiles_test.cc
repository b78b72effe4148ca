// Tiles of 8-bit codes: rows come back as they were put, and move as single rows would.
#include "kernels/row_tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace kvasir {
namespace {

constexpr Packing kGroups{Levels::kSigned, 8, Scaling::kGroup};
constexpr Packing kChannels{Levels::kSigned, 8, Scaling::kChannel};

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t n, std::mt19937& rng) {
  Bytes bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng() & 0xFF);
  return bytes;
}

// Two tiles and the rows that are in them, slots numbered through.
struct Pair {
  Pair(const RowTiles& shape, std::mt19937& rng)
      : tiles(shape), row_bytes(shape.packing.row_bytes(shape.head_dim)) {
    for (Bytes& tile : memory) tile = random_bytes(shape.bytes(), rng);
    for (int32_t slot = 0; slot < 2 * kPageSlots; ++slot) {
      rows.push_back(random_bytes(row_bytes, rng));
      tiles.put(rows.back().data(), memory[slot / kPageSlots].data(), slot % kPageSlots);
    }
  }
  Bytes row(int32_t slot) const {
    Bytes row(row_bytes);
    tiles.get(memory[slot / kPageSlots].data(), slot % kPageSlots, row.data());
    return row;
  }

  RowTiles tiles;
  size_t row_bytes;
  Bytes memory[2];
  std::vector<Bytes> rows;
};

std::vector<RowTiles> shapes() {
  std::vector<RowTiles> shapes;
  for (const Packing& packing : {kGroups, kChannels}) {
    for (const int32_t head_dim : {64, 128, 576}) {
      for (const RowLayout layout : {RowLayout::kKeyTile, RowLayout::kValueTile}) {
        shapes.push_back({packing, head_dim, layout});
      }
    }
  }
  return shapes;
}

TEST(RowTiles, RowsComeBack) {
  std::mt19937 rng(1);
  for (const RowTiles& shape : shapes()) {
    const Pair pair(shape, rng);
    for (int32_t slot = 0; slot < 2 * kPageSlots; ++slot) {
      ASSERT_EQ(pair.row(slot), pair.rows[static_cast<size_t>(slot)]) << "slot " << slot;
    }
  }
}

TEST(RowTiles, CodesLieAsDotProductsReadThem) {
  std::mt19937 rng(2);
  for (const RowLayout layout : {RowLayout::kKeyTile, RowLayout::kValueTile}) {
    const Pair pair({kGroups, 64, layout}, rng);
    const size_t scales = kGroups.scale_bytes(64);
    const std::byte* tile = pair.memory[0].data();
    for (size_t slot = 0; slot < kPageSlots; ++slot) {
      for (size_t d = 0; d < 64; ++d) {
        const std::byte code = pair.rows[slot][scales + d];
        if (layout == RowLayout::kKeyTile) {
          ASSERT_EQ(tile[d / 4 * 256 + slot * 4 + d % 4], code ^ std::byte{0x80});
        } else {
          ASSERT_EQ(tile[slot / 4 * 256 + d * 4 + slot % 4], code);
        }
      }
      ASSERT_EQ(std::memcmp(tile + 4096 + slot * 2, pair.rows[slot].data(), 2), 0);
      ASSERT_EQ(std::memcmp(tile + 4096 + 128 + slot * 2, pair.rows[slot].data() + 2, 2), 0);
    }
  }
}

TEST(RowTiles, RunsMoveAsTheirRowsDo) {
  std::mt19937 rng(3);
  const auto below = [&](int32_t n) {
    return static_cast<int32_t>(rng() % static_cast<uint32_t>(n));
  };
  for (const RowTiles& shape : shapes()) {
    for (int i = 0; i < 200; ++i) {
      Pair pair(shape, rng);
      const bool one = i % 2 == 0;
      const int32_t from = below(kPageSlots);
      const int32_t to = one ? below(from + 1) : below(kPageSlots);
      const int32_t n = 1 + below(kPageSlots - std::max(from, to));
      std::byte* target = pair.memory[0].data();
      pair.tiles.move(pair.memory[one ? 0 : 1].data(), from, target, to, n);
      for (int32_t slot = 0; slot < kPageSlots; ++slot) {
        const bool moved = slot >= to && slot < to + n;
        const int32_t was = moved ? slot - to + from + (one ? 0 : kPageSlots) : slot;
        ASSERT_EQ(pair.row(slot), pair.rows[static_cast<size_t>(was)])
            << "slot " << slot << " after " << from << " to " << to << ", " << n << " slots, "
            << (one ? "one tile" : "two tiles") << ", head_dim " << shape.head_dim;
      }
    }
  }
}

TEST(RowTiles, OnlySignedCodesOfWholeVectors) {
  EXPECT_TRUE(has_tiles(kGroups, 64));
  EXPECT_TRUE(has_tiles(kChannels, 256));
  EXPECT_FALSE(has_tiles(kGroups, 80));
  EXPECT_FALSE(has_tiles({Levels::kUnsigned, 8, Scaling::kGroupZero}, 64));
  EXPECT_FALSE(has_tiles({Levels::kUnsigned, 4, Scaling::kGroupZero}, 64));
}

}  // namespace
}  // namespace kvasir
