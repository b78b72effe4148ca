// restore_row of every table gives the bits of the reference; rotate_row is right to rounding.
#include <cstring>

#include "kernels/packed_rows.h"
#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kCanary;

constexpr int32_t kDims[] = {1, 7, 32, 33, 64, 80, 96, 100, 128, 192, 256, 576};

class RestoreRow : public test::TableTest {};

// Packed rows whose scales and zeros are finite.
std::vector<std::byte> packed_row(const Packing& packing, int32_t head_dim, std::mt19937& rng) {
  std::vector<std::byte> row(packing.row_bytes(head_dim));
  for (std::byte& b : row) b = static_cast<std::byte>(rng() & 0xFF);
  std::normal_distribution<float> normal;
  for (size_t at = 0; at < packing.scale_bytes(head_dim); at += 2) {
    const uint16_t half = float_to_half(normal(rng));
    std::memcpy(row.data() + at, &half, sizeof(half));
  }
  return row;
}

TEST_P(RestoreRow, GivesTheBitsOfTheReference) {
  std::mt19937 rng(8);
  const Packing references{Levels::kSigned, 8, Scaling::kGroup, 64, true};
  for (const int32_t n : kDims) {
    for (const int32_t bits : {2, 4}) {
      for (const int32_t group : {32, 64}) {
        for (const int32_t n_fathers : {1, 2, 3, 4, 16}) {
          const Packing difference{Levels::kUnsigned, bits, Scaling::kGroupZero, group,
                                   group == 64};
          const std::vector<std::byte> packed = packed_row(difference, n, rng);
          std::vector<std::vector<std::byte>> rows;
          std::vector<const std::byte*> fathers;
          for (int32_t f = 0; f < n_fathers; ++f) rows.push_back(packed_row(references, n, rng));
          for (const auto& row : rows) fathers.push_back(row.data());
          const RestoreArgs args{references, difference,    n,        fathers.data(),
                                 n_fathers,  packed.data(), bits == 4};
          std::vector<float> out(static_cast<size_t>(n) + 2, kCanary);
          std::vector<float> expected = out;
          supported_kernels()[0]->restore_row(args, expected.data() + 1);
          GetParam()->restore_row(args, out.data() + 1);
          ASSERT_EQ(out, expected) << GetParam()->name << ", " << n << ", " << n_fathers;
        }
      }
    }
  }
}

TEST_P(RestoreRow, RotatesAsTheReferenceToRounding) {
  std::mt19937 rng(9);
  std::normal_distribution<float> normal;
  for (const bool neox : {true, false}) {
    for (const int32_t n_pairs : {1, 3, 8, 16, 20, 32, 64, 100}) {
      std::vector<float> tables[2];
      for (auto& table : tables) {
        std::vector<float> sines;
        for (int32_t i = 0; i < n_pairs; ++i) {
          const float angle = normal(rng);
          table.push_back(std::cos(angle));
          sines.push_back(std::sin(angle));
        }
        table.insert(table.end(), sines.begin(), sines.end());
      }
      std::vector<float> row(static_cast<size_t>(2 * n_pairs) + 5);
      for (float& x : row) x = normal(rng);
      std::vector<float> expected = row;
      const std::vector<float> before = row;
      const RotateArgs args{tables[0].data(), tables[1].data(), n_pairs, neox, 3};
      supported_kernels()[0]->rotate_row(args, expected.data());
      GetParam()->rotate_row(args, row.data());
      for (size_t i = 0; i < row.size(); ++i) {
        ASSERT_NEAR(row[i], expected[i], 1e-6) << GetParam()->name << ", " << n_pairs << ", " << i;
      }
      for (const size_t i : {size_t{0}, size_t{2}, row.size() - 2, row.size() - 1}) {
        EXPECT_EQ(row[i], before[i]);  // not rotated
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, RestoreRow, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
