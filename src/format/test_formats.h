// What the formats' tests share: the sides of all registered formats, blocks of rows, and encoding
// into memory that ends where it must.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "format/row_codec.h"

namespace kvasir::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr int32_t kHeadDims[] = {1, 33, 64, 80, 96, 100, 128, 256};

/// K or V of a format.
struct Side {
  std::string name;  ///< "int8/K"
  const RowCodec* codec;
};

inline void PrintTo(const Side& side, std::ostream* out) { *out << side.name; }  // NOLINT: gtest's

inline std::vector<Side> all_sides() {
  std::vector<Side> sides;
  for (const RowFormat& format : row_formats()) {
    if (format.k != nullptr) sides.push_back({std::string(format.name).append("/K"), format.k});
    if (format.v != nullptr) sides.push_back({std::string(format.name).append("/V"), format.v});
  }
  return sides;
}

/// The name of a side as GoogleTest allows it.
inline std::string test_name(const Side& side) {
  std::string name = side.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '-'; }, '_');
  return name;
}

/// Rows of f32, densely packed.
using Rows = std::vector<float>;

inline Rows normal_rows(int32_t n_rows, int32_t head_dim, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  Rows rows(static_cast<size_t>(n_rows * head_dim));
  for (float& x : rows) x = normal(rng);
  return rows;
}

/// One encoded block.
struct Block {
  std::vector<std::byte> codes, shared;

  void decode(const RowCodec& codec, int32_t head_dim, int32_t first_row, int32_t n_rows,
              float* out) const {
    codec.decode(head_dim,
                 codes.data() + static_cast<size_t>(first_row) * codec.row_bytes(head_dim), n_rows,
                 shared.empty() ? nullptr : shared.data(), out);
  }
};

/// The bytes of a block of `codec`, all set to `fill`.
inline Block block_of(const RowCodec& codec, int32_t head_dim, uint8_t fill = 0xA5) {
  const auto n_rows = static_cast<size_t>(codec.block_rows());
  return {std::vector<std::byte>(codec.row_bytes(head_dim) * n_rows, std::byte{fill}),
          std::vector<std::byte>(codec.shared_bytes(head_dim), std::byte{fill})};
}

inline Block encoded(const RowCodec& codec, int32_t head_dim, const Rows& rows) {
  Block block = block_of(codec, head_dim);
  codec.encode(head_dim, rows.data(), head_dim, block.codes.data(),
               block.shared.empty() ? nullptr : block.shared.data());
  return block;
}

/// What a block of rows becomes; turned back where the codec leaves rows turned.
inline Rows round_trip(const RowCodec& codec, int32_t head_dim, const Rows& rows) {
  const Block block = encoded(codec, head_dim, rows);
  Rows out(rows.size(), kNan);
  block.decode(codec, head_dim, 0, codec.block_rows(), out.data());
  for (size_t at = 0; codec.turned() && at < out.size(); at += static_cast<size_t>(head_dim)) {
    turn_row(out.data() + at, head_dim);
  }
  return out;
}

}  // namespace kvasir::test
