// dot_rows of every table against sums in double.
#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kCanary;

class DotRows : public test::TableTest {};

std::vector<float> normal_rows(size_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal(0.5f, 2.0f);
  std::vector<float> rows(n);
  for (float& x : rows) x = normal(rng);
  return rows;
}

TEST_P(DotRows, OfAllShapes) {
  std::mt19937 rng(7);
  for (const int32_t dim : {1, 3, 15, 16, 17, 63, 64, 100, 384, 1000}) {
    for (const int32_t n_a : {0, 1, 3, 4, 5, 9}) {
      for (const int32_t n_b : {1, 3, 4, 7, 8, 64}) {
        // One element in front, so that no row begins at a vector's boundary.
        const auto a = normal_rows(static_cast<size_t>(n_a * dim + 1), rng);
        const auto b = normal_rows(static_cast<size_t>(n_b * dim + 1), rng);
        std::vector<float> out(static_cast<size_t>(n_a * n_b + 1), kCanary);
        GetParam()->dot_rows(a.data() + 1, n_a, b.data() + 1, n_b, dim, out.data());
        EXPECT_EQ(out.back(), kCanary);
        for (int32_t i = 0; i < n_a; ++i) {
          for (int32_t j = 0; j < n_b; ++j) {
            double exact = 0;
            double magnitude = 0;
            for (int32_t d = 0; d < dim; ++d) {
              const double term = static_cast<double>(a[static_cast<size_t>(i * dim + d + 1)]) *
                                  static_cast<double>(b[static_cast<size_t>(j * dim + d + 1)]);
              exact += term;
              magnitude += std::abs(term);
            }
            ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>(i * n_b + j)]), exact,
                        (dim + 1) * test::kUnit * magnitude)
                << GetParam()->name << ", dim " << dim << ", " << n_a << " x " << n_b;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, DotRows, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
