// turn_row: the matrix by its definition, lengths and dot products kept, its own inverse.
#include <bit>

#include "format/test_formats.h"

namespace kvasir {
namespace {

using test::Rows;

double dot(const Rows& a, const Rows& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(TurnRow, IsAWalshHadamardMatrix) {
  for (const int32_t n : {1, 2, 4, 64}) {
    for (int32_t column = 0; column < n; ++column) {
      Rows unit(static_cast<size_t>(n), 0.0f);
      unit[static_cast<size_t>(column)] = 1.0f;
      turn_row(unit.data(), n);
      for (int32_t row = 0; row < n; ++row) {
        const bool odd = std::popcount(static_cast<uint32_t>(row & column)) % 2 != 0;
        const float want = (odd ? -1.0f : 1.0f) / std::sqrt(static_cast<float>(n));
        EXPECT_NEAR(unit[static_cast<size_t>(row)], want, 1e-6f)
            << n << ": " << row << "," << column;
      }
    }
  }
}

// 6 = 4 + 2: the parts do not mix.
TEST(TurnRow, TurnsEveryPowerOfTwoByItself) {
  Rows row{4, 0, 0, 0, 3, 1};
  turn_row(row.data(), 6);
  const float root = std::sqrt(2.0f);
  const Rows want{2, 2, 2, 2, 4 / root, 2 / root};
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], want[i], 1e-6f);
}

TEST(TurnRow, KeepsDotProductsAndIsItsOwnInverse) {
  for (const int32_t head_dim : {1, 3, 33, 64, 80, 96, 100, 128, 256, 576}) {
    const Rows k = test::normal_rows(1, head_dim, 1), q = test::normal_rows(1, head_dim, 2);
    Rows turned_k = k, turned_q = q;
    turn_row(turned_k.data(), head_dim);
    turn_row(turned_q.data(), head_dim);
    EXPECT_NEAR(dot(turned_k, turned_k), dot(k, k), 1e-5 * head_dim) << head_dim;
    EXPECT_NEAR(dot(turned_q, turned_k), dot(q, k), 1e-5 * head_dim) << head_dim;
    turn_row(turned_k.data(), head_dim);
    for (size_t i = 0; i < k.size(); ++i) EXPECT_NEAR(turned_k[i], k[i], 4e-6f) << head_dim;
  }
}

}  // namespace
}  // namespace kvasir
