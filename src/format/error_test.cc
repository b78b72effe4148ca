// No value is further from its row than half a step, for every format, side and head_dim; and what
// that is on normal rows.
#include <algorithm>

#include "format/test_formats.h"

namespace kvasir {
namespace {

using test::Rows;

/// How the steps of a side follow from its values, written apart from the codecs.
struct Grid {
  std::string_view name;
  double levels;     ///< steps from the lowest to the highest value, or from 0 to the largest
  double rms;        ///< of the error on rows of 64 normal values, measured
  int32_t channels;  ///< of a group; 0: a channel of the whole block
  bool symmetric;    ///< from 0
  bool rest_joins;   ///< a last group may be longer instead of shorter
};

// The rms is a step / sqrt(12), where the mean range of 32, 64 and 128 normal values is 4.1, 4.7
// and 5.4: 4.7 / 31 / sqrt(12) = .044 for five bits. 127 steps for int8, 2^b - 1 for b bits; nf4:
// its widest gap.
constexpr double kNf4Steps = 1 / (1 - 0.6961928009986877);
constexpr Grid kGrids[] = {
    {"int8/K", 127, 0.00533, 32, true, false},
    {"int8/V", 127, 0.00533, 32, true, false},
    {"int8-channel/K", 127, 0.00646, 0, true, false},
    {"int8-channel/V", 127, 0.00646, 0, true, false},
    {"kivi4/K", 15, 0.0784, 0, false, false},
    {"kivi4/V", 15, 0.078, 32, false, false},
    {"kivi2/K", 3, 0.393, 0, false, false},
    {"kivi2/V", 3, 0.392, 32, false, false},
    {"int4/K", 15, 0.078, 32, false, false},
    {"int4/V", 15, 0.078, 32, false, false},
    {"nf4/K", kNf4Steps, 0.0869, 32, true, false},
    {"nf4/V", kNf4Steps, 0.0869, 32, true, false},
    {"k8v4/K", 255, 0.00525, 64, false, true},
    {"k8v4/V", 15, 0.0893, 64, false, true},
    {"k5v4/K", 31, 0.0432, 64, false, true},
    {"k5v4/V", 15, 0.0893, 64, false, true},
    {"k4v4/K", 15, 0.0894, 64, false, true},
    {"k4v4/V", 15, 0.0893, 64, false, true},
    {"k4v2/K", 15, 0.0894, 64, false, true},
    {"k4v2/V", 3, 0.449, 64, false, true},
    {"k3v2/K", 7, 0.191, 64, false, true},
    {"k3v2/V", 3, 0.449, 64, false, true},
};

const Grid& grid_of(const test::Side& side) {
  const auto* found = std::find_if(std::begin(kGrids), std::end(kGrids),
                                   [&](const Grid& grid) { return grid.name == side.name; });
  EXPECT_NE(found, std::end(kGrids)) << side.name << " has no line in kGrids";
  return *found;
}

/// First and last + 1 channel of d's group.
std::pair<int32_t, int32_t> group_of(const Grid& grid, int32_t head_dim, int32_t d) {
  const int32_t n = grid.rest_joins ? std::max(1, head_dim / grid.channels)
                                    : (head_dim + grid.channels - 1) / grid.channels;
  const int32_t g = std::min(d / grid.channels, n - 1);
  return {g * grid.channels, g + 1 == n ? head_dim : (g + 1) * grid.channels};
}

/// What is rounded: the rows, or the turned rows less the means of their channels.
struct Rounded {
  Rows values;
  double slack = 0;  ///< by which the codec's own arithmetic may differ
};

Rounded rounded_values(const RowCodec& codec, int32_t head_dim, Rows rows) {
  double largest = 0;
  const size_t width = static_cast<size_t>(head_dim), n = rows.size() / width;
  for (size_t r = 0; codec.turned() && r < n; ++r) turn_row(rows.data() + r * width, head_dim);
  for (const float x : rows) largest = std::max(largest, std::abs(static_cast<double>(x)));
  for (size_t d = 0; codec.turned() && d < width; ++d) {
    double mean = 0;
    for (size_t r = 0; r < n; ++r) mean += static_cast<double>(rows[r * width + d]) / 128;
    for (size_t r = 0; r < n; ++r) rows[r * width + d] -= static_cast<float>(mean);
  }
  // f32: a difference, a quotient, a sum; turned, also a mean rounded to binary16, whose error the
  // range may grow by
  return {rows, largest * (codec.turned() ? 0x1p-10 : 0x1p-22)};
}

/// Lowest and highest of the values that share the step of (row r, channel d).
std::pair<double, double> range_of(const Grid& grid, const Rows& rows, int32_t head_dim, int32_t r,
                                   int32_t d) {
  double low = INFINITY, high = -INFINITY;
  const auto add = [&](int32_t row, int32_t channel) {
    const double x = rows[static_cast<size_t>(row * head_dim + channel)];
    low = std::min(low, x), high = std::max(high, x);
  };
  if (grid.channels == 0) {
    for (int32_t i = 0; i < static_cast<int32_t>(rows.size()) / head_dim; ++i) add(i, d);
  } else {
    const auto [first, last] = group_of(grid, head_dim, d);
    for (int32_t i = first; i < last; ++i) add(r, i);
  }
  return {low, high};
}

/// Half a step: the range with its zero rounded down to binary16, the scale rounded up.
double half_step(const Grid& grid, std::pair<double, double> range) {
  const auto [low, high] = range;
  const double span =
      grid.symmetric ? std::max(-low, high) : high - low + std::abs(low) * 0x1p-10 + 0x1p-24;
  return (span / grid.levels * (1 + 0x1p-10) + 0x1p-24) / 2;
}

/// Rows of normal values; `uneven`: channels with offsets and sizes of their own, as keys have.
Rows test_rows(int32_t n_rows, int32_t head_dim, bool uneven) {
  Rows rows = test::normal_rows(n_rows, head_dim, 7);
  for (size_t i = 0; uneven && i < rows.size(); ++i) {
    const auto d = static_cast<int32_t>(i) % head_dim;
    rows[i] = rows[i] * (d % 13 == 5 ? 20.0f : 1.0f) + static_cast<float>(d % 7 * 3);
  }
  return rows;
}

class Errors : public ::testing::TestWithParam<test::Side> {};

std::string side_name(const ::testing::TestParamInfo<test::Side>& info) {
  return test::test_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, Errors, ::testing::ValuesIn(test::all_sides()), side_name);

void expect_within_half_a_step(const test::Side& side, int32_t head_dim, bool uneven) {
  const RowCodec& codec = *side.codec;
  const Grid& grid = grid_of(side);
  const int32_t n_rows = codec.block_rows();
  const Rows rows = test_rows(n_rows, head_dim, uneven);
  const auto [values, slack] = rounded_values(codec, head_dim, rows);
  Rows got(rows.size());
  test::encoded(codec, head_dim, rows).decode(codec, head_dim, 0, n_rows, got.data());
  Rows exact = rows;
  for (size_t at = 0; codec.turned() && at < exact.size(); at += static_cast<size_t>(head_dim)) {
    turn_row(exact.data() + at, head_dim);
  }
  for (int32_t r = 0; r < n_rows; ++r) {
    for (int32_t d = 0; d < head_dim; ++d) {
      const auto i = static_cast<size_t>(r * head_dim + d);
      const double bound = half_step(grid, range_of(grid, values, head_dim, r, d)) + slack;
      ASSERT_NEAR(got[i], exact[i], bound) << "dim " << head_dim << ", row " << r << ", d " << d;
    }
  }
}

TEST_P(Errors, AreAtMostHalfAStep) {
  for (const int32_t head_dim : test::kHeadDims) {
    for (const bool uneven : {false, true}) {
      expect_within_half_a_step(GetParam(), head_dim, uneven);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Errors, OnNormalRowsAreKnown) {
  constexpr int32_t kDim = 64, kRows = 4096;
  const RowCodec& codec = *GetParam().codec;
  double squares = 0;
  for (int32_t first = 0; first < kRows; first += codec.block_rows()) {
    const auto seed = static_cast<uint32_t>(100 + first);
    const Rows rows = test::normal_rows(codec.block_rows(), kDim, seed);
    const Rows got = test::round_trip(codec, kDim, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const double error = static_cast<double>(got[i]) - static_cast<double>(rows[i]);
      squares += error * error;
    }
  }
  const double rms = std::sqrt(squares / (kDim * kRows));
  const double want = grid_of(GetParam()).rms;
  EXPECT_NEAR(rms, want, 0.03 * want) << GetParam().name;
}

}  // namespace
}  // namespace kvasir
