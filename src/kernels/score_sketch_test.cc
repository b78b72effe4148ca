// score_sketch of every table against sums in double.
#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kCanary;

size_t z(int64_t n) { return static_cast<size_t>(n); }

class ScoreSketch : public test::TableTest {};

// A page whose slots from n_slots on are anything, and queries with the largest entries there are.
struct Sketch {
  Sketch(int32_t n_bytes, int32_t n_slots, int32_t n_rows, std::mt19937& rng)
      : codes(z(n_bytes) * kPageSlots),
        steps(kPageSlots, test::kHalfNan),
        tables(z(n_rows) * z(n_bytes) * 32),
        scores(n_rows, n_slots + 2, kCanary) {
    std::uniform_int_distribution<int32_t> byte(0, 255), entry(0, 127);
    std::uniform_real_distribution<float> step(0.01F, 2.0F);
    for (uint8_t& code : codes) code = static_cast<uint8_t>(byte(rng));
    for (int32_t slot = 0; slot < n_slots; ++slot) steps[z(slot)] = float_to_half(step(rng));
    for (uint8_t& value : tables) value = static_cast<uint8_t>(entry(rng));
    std::fill_n(tables.begin(), n_bytes * 32, uint8_t{127});  // of the first row
    for (int32_t r = 0; r < n_rows; ++r) {
      queries.push_back({tables.data() + z(r) * z(n_bytes) * 32, step(rng) / 16, -step(rng) * 8});
    }
    args = {codes.data(), steps.data(),   n_bytes,          n_slots,
            n_rows,       queries.data(), scores.pointers()};
  }

  double key(int32_t row, int32_t slot) const {
    int32_t sum = 0;
    for (int32_t b = 0; b < args.n_bytes; ++b) {
      const uint8_t code = codes[z(b) * kPageSlots + z(slot)];
      const uint8_t* t = queries[z(row)].tables + z(b) * 32;
      sum += t[code % 16] + t[16 + code / 16];
    }
    return double{queries[z(row)].step} * sum;
  }

  std::vector<uint8_t> codes;
  std::vector<uint16_t> steps;
  std::vector<uint8_t> tables;
  std::vector<SketchQuery> queries;
  test::Rows scores;
  SketchArgs args;
};

TEST_P(ScoreSketch, OfAllShapes) {
  std::mt19937 rng(11);
  for (const int32_t n_bytes : {1, 2, 3, 16, 25, 32, 64, 144}) {
    for (const int32_t n_slots : {1, 2, 15, 16, 17, 33, 63, 64}) {
      const int32_t n_rows = 1 + n_slots % 4;
      Sketch sketch(n_bytes, n_slots, n_rows, rng);
      std::vector<ScoreSums> sums(z(n_rows) + 1, {kCanary, kCanary});
      GetParam()->score_sketch(sketch.args, sums.data());
      EXPECT_EQ(sums.back().most, kCanary);
      for (int32_t r = 0; r < n_rows; ++r) {
        double most = -1e300, sum = 0, error = 0;
        for (int32_t slot = 0; slot < n_slots; ++slot) {
          const double step = half_to_float(sketch.steps[z(slot)]);
          const double exact = (sketch.key(r, slot) + double{sketch.queries[z(r)].offset}) * step;
          const double allowed =
              4 * test::kUnit * step * (sketch.key(r, slot) - double{sketch.queries[z(r)].offset});
          ASSERT_NEAR(sketch.scores[r][slot], exact, allowed)
              << n_bytes << " bytes, " << n_slots << " slots, slot " << slot;
          most = std::max(most, exact);
          error = std::max(error, allowed);
        }
        for (int32_t slot = 0; slot < n_slots; ++slot) {
          sum += std::exp(double{sketch.scores[r][slot]} - double{sums[z(r)].most});
        }
        EXPECT_NEAR(sums[z(r)].most, most, error);
        EXPECT_NEAR(sums[z(r)].sum, sum, 1e-5 * sum);
        EXPECT_EQ(sketch.scores[r][n_slots], kCanary);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, ScoreSketch, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
