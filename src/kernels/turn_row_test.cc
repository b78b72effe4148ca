// turn_row of every table gives the bits of the reference.
#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kCanary;

class TurnRow : public test::TableTest {};

TEST_P(TurnRow, GivesTheBitsOfTheReference) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (const int32_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 64, 80, 96, 100, 128, 192, 256, 576}) {
    std::vector<float> row(static_cast<size_t>(n) + 2, kCanary);
    for (int32_t i = 1; i <= n; ++i) row[static_cast<size_t>(i)] = normal(rng);
    std::vector<float> expected = row;
    supported_kernels()[0]->turn_row(expected.data() + 1, n);
    GetParam()->turn_row(row.data() + 1, n);
    ASSERT_EQ(row, expected) << GetParam()->name << ", " << n;
    EXPECT_EQ(row.front(), kCanary);
    EXPECT_EQ(row.back(), kCanary);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, TurnRow, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
