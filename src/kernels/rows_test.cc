// store_k, store_v, add_mass and the rounding of f16 in every table.
#include <cstring>

#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::HalfBuffer;
using test::kCanary;
using test::kHalfNan;
using test::kInfinity;
using test::kNan;
using test::Page;

// binary16 by its definition (IEEE 754-2019, section 3.4): the nearest of all 63488 finite values
// and of infinity at 2^16, ties to the even fraction.
uint16_t nearest_half(float value) {
  if (std::isnan(value)) return kHalfNan;
  const double magnitude = std::abs(static_cast<double>(value));
  const auto value_of = [](int32_t code) {
    const int32_t exponent = code >> 10, fraction = code & 1023;
    return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  };
  int32_t low = 0, high = kHalfInfinity;  // value_of(kHalfInfinity) is 2^16, where infinity begins
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    (value_of(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value_of(low), above = value_of(high) - magnitude;
  const int32_t code = magnitude >= 65536 ? kHalfInfinity
                       : below != above   ? (below < above ? low : high)
                                          : (low % 2 == 0 ? low : high);
  return static_cast<uint16_t>(code | (std::signbit(value) ? 0x8000 : 0));
}

bool same_half(uint16_t a, uint16_t b) {
  const auto is_nan = [](uint16_t x) { return (x & 0x7FFF) > kHalfInfinity; };
  return a == b || (is_nan(a) && is_nan(b));
}

// Values at, beside and between all binary16 values, and beyond them.
std::vector<float> rounding_sample() {
  std::vector<float> sample{0.0f,     -0.0f,      kInfinity,    -kInfinity, kNan,   65519.996f,
                            65520.0f, -65520.0f,  65536.0f,     1e38f,      1e-45f, -1e-38f,
                            0x1p-25f, 0x1.8p-25f, 0x1.002p-25f, 0x1p-26f};
  for (uint32_t code = 0; code < kHalfInfinity; ++code) {
    const float value = half_to_float(static_cast<uint16_t>(code));
    const float next =
        code + 1 < kHalfInfinity ? half_to_float(static_cast<uint16_t>(code + 1)) : 65536.0f;
    const float middle = (value + next) / 2;
    for (const float x :
         {value, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInfinity)}) {
      sample.push_back(code % 2 == 0 ? x : -x);
    }
  }
  return sample;
}

TEST(Half, RoundTripsEveryCode) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<uint16_t>(code);
    EXPECT_TRUE(same_half(float_to_half(half_to_float(half)), half)) << code;
  }
  EXPECT_EQ(half_to_float(0x3C00), 1.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(half_to_float(0xC500), -5.0f);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0f);
}

TEST(Half, RoundsToNearestEven) {
  for (const float value : rounding_sample()) {
    EXPECT_TRUE(same_half(float_to_half(value), nearest_half(value))) << value;
  }
}

class StoreRows : public test::TableTest {};

TEST_P(StoreRows, RoundToNearestEven) {
  std::vector<float> sample = rounding_sample();
  constexpr int32_t kDim = 64;
  sample.resize((sample.size() + kDim - 1) / kDim * kDim, 1.0f);
  HalfBuffer v(kDim * kPageSlots);
  for (size_t first = 0; first < sample.size(); first += kDim) {
    GetParam()->store_v(v.data(), kDim, 0, 1, sample.data() + first, kDim);
    for (size_t i = 0; i < kDim; ++i) {
      ASSERT_TRUE(same_half(v.data()[i], nearest_half(sample[first + i])))
          << sample[first + i] << " became " << v.data()[i];
    }
  }
}

// Stores n tokens and looks at every element of the page: the right ones changed, to the right
// value, and no other.
void expect_stored(const KvKernels& table, int32_t head_dim, int32_t first, int32_t n,
                   std::mt19937& rng) {
  Page page(head_dim, head_dim, kPageSlots);
  const ptrdiff_t stride = head_dim + 5;
  std::vector<float> rows(static_cast<size_t>(stride) * static_cast<size_t>(n));
  std::normal_distribution<float> normal;
  for (float& x : rows) x = normal(rng);
  table.store_k(page.k.data(), head_dim, first, n, rows.data(), stride);
  table.store_v(page.v.data(), head_dim, first, n, rows.data(), stride);
  for (int32_t slot = 0; slot < kPageSlots; ++slot) {
    for (int32_t d = 0; d < head_dim; ++d) {
      const bool stored = slot >= first && slot < first + n;
      const uint16_t want =
          stored ? float_to_half(rows[static_cast<size_t>((slot - first) * stride + d)]) : kHalfNan;
      ASSERT_EQ(page.k_at(slot, d), want)
          << "K, dim " << head_dim << ", slot " << slot << ", d " << d;
      ASSERT_EQ(page.v_at(slot, d), want)
          << "V, dim " << head_dim << ", slot " << slot << ", d " << d;
    }
  }
}

TEST_P(StoreRows, WriteTheirSlotsAndNoOthers) {
  std::mt19937 rng(1);
  for (const int32_t head_dim : {1, 7, 64, 80, 100, 576}) {
    for (const auto& [first, n] : {std::pair{0, 64}, {0, 1}, {63, 1}, {5, 20}, {16, 16}, {40, 0}}) {
      expect_stored(*GetParam(), head_dim, first, n, rng);
      if (HasFatalFailure()) return;
    }
  }
}

// The last row ends where its memory ends; rows may lie backwards.
TEST_P(StoreRows, ReadNoElementPastARow) {
  for (const int32_t head_dim : {1, 9, 65}) {
    std::vector<float> rows(static_cast<size_t>(2 * head_dim), 1.0f);
    std::fill(rows.begin() + head_dim, rows.end(), 2.0f);
    Page page(head_dim, head_dim, 2);
    GetParam()->store_k(page.k.data(), head_dim, 0, 2, rows.data() + head_dim, -head_dim);
    GetParam()->store_v(page.v.data(), head_dim, 0, 2, rows.data() + head_dim, -head_dim);
    for (const int32_t slot : {0, 1}) {
      EXPECT_EQ(page.k_at(slot, head_dim - 1), float_to_half(slot == 0 ? 2.0f : 1.0f));
      EXPECT_EQ(page.v_at(slot, head_dim - 1), float_to_half(slot == 0 ? 2.0f : 1.0f));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, StoreRows, test::all_tables(), test::table_name);

class AddMass : public test::TableTest {};

TEST_P(AddMass, AddsTheSoftmaxWeights) {
  std::mt19937 rng(2);
  std::uniform_real_distribution<float> uniform(-80.0f, 0.0f);
  for (const int32_t n : {1, 3, 8, 15, 16, 17, 64, 100}) {
    constexpr float kMax = 3.5f, kSum = 1.75f, kWeight = 0.125f;
    std::vector<float> scores(static_cast<size_t>(n)), mass(static_cast<size_t>(n) + 1, 0.5f);
    for (float& x : scores) x = kMax + uniform(rng) * uniform(rng) / -80.0f;
    scores[0] = kMax;
    scores[static_cast<size_t>(n) / 2] = -kInfinity;
    mass.back() = kCanary;
    GetParam()->add_mass(scores.data(), n, kMax, kSum, kWeight, mass.data());
    EXPECT_EQ(mass.back(), kCanary);
    for (size_t i = 0; i < scores.size(); ++i) {
      const double p = std::exp(static_cast<double>(scores[i]) - static_cast<double>(kMax));
      const double want = 0.5 + p / static_cast<double>(kSum) * static_cast<double>(kWeight);
      // exp to 2e-7 plus the rounding of its argument, and one rounding of the sum
      EXPECT_NEAR(mass[i], want, 4e-7 * (want - 0.5) + 0x1p-24 * want + 4e-6 * (want - 0.5))
          << "score " << scores[i];
    }
  }
}

TEST_P(AddMass, ExponentialIsAccurateOverItsRange) {
  std::vector<float> scores;
  for (int32_t i = 0; i < 2426; ++i) scores.push_back(-87.0f + 0.0371f * static_cast<float>(i));
  std::vector<float> mass(scores.size(), 0.0f);
  GetParam()->add_mass(scores.data(), static_cast<int32_t>(scores.size()), 0.0f, 1.0f, 1.0f,
                       mass.data());
  double worst = 0;
  float where = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double want = std::exp(static_cast<double>(scores[i]));
    const double error = std::abs(static_cast<double>(mass[i]) / want - 1);
    if (error > worst) worst = error, where = scores[i];
  }
  EXPECT_LT(worst, 2e-7) << "exp(" << where << ")";
  for (const float score : {-88.0f, -1000.0f, -3e38f, -kInfinity}) {
    float got = 0;
    GetParam()->add_mass(&score, 1, 0.0f, 1.0f, 1.0f, &got);
    EXPECT_LT(got, 0x1p-125f) << score;
    EXPECT_GE(got, 0.0f) << score;
  }
}

TEST_P(AddMass, NanScoreGivesNanToItsOwnMass) {
  for (const int32_t n : {1, 5, 64}) {
    std::vector<float> scores(static_cast<size_t>(n), 1.0f), mass(static_cast<size_t>(n), 0.5f);
    scores.back() = kNan;
    GetParam()->add_mass(scores.data(), n, 1.0f, 2.0f, 1.0f, mass.data());
    EXPECT_TRUE(std::isnan(mass.back()));
    for (int32_t i = 0; i + 1 < n; ++i) EXPECT_EQ(mass[static_cast<size_t>(i)], 1.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, AddMass, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
