// What row_codec.h promises, for every registered format and head_dim.
#include <algorithm>

#include "format/quantize.h"
#include "format/test_formats.h"

namespace kvasir {
namespace {

using test::Block;
using test::kHeadDims;
using test::kInfinity;
using test::kNan;
using test::Rows;

class Formats : public ::testing::TestWithParam<test::Side> {
 protected:
  const RowCodec& codec() const { return *GetParam().codec; }
};

std::string side_name(const ::testing::TestParamInfo<test::Side>& info) {
  return test::test_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, Formats, ::testing::ValuesIn(test::all_sides()), side_name);

TEST_P(Formats, BlocksAreAPowerOfTwo) {
  const int32_t n = codec().block_rows();
  EXPECT_GE(n, 1);
  EXPECT_LE(n, kMaxBlockRows);
  EXPECT_EQ(n & (n - 1), 0);
}

TEST_P(Formats, EncodingWritesEveryByteAndNoOther) {
  for (const int32_t head_dim : kHeadDims) {
    const Rows rows = test::normal_rows(codec().block_rows(), head_dim, 1);
    Block a = test::block_of(codec(), head_dim, 0x00), b = test::block_of(codec(), head_dim, 0xFF);
    for (Block* block : {&a, &b}) {
      const size_t codes_end = block->codes.size(), shared_end = block->shared.size();
      block->codes.push_back(std::byte{0x5A});
      block->shared.push_back(std::byte{0x5A});
      codec().encode(head_dim, rows.data(), head_dim, block->codes.data(), block->shared.data());
      EXPECT_EQ(block->codes[codes_end], std::byte{0x5A});
      EXPECT_EQ(block->shared[shared_end], std::byte{0x5A});
    }
    EXPECT_EQ(a.codes, b.codes) << "dim " << head_dim;
    EXPECT_EQ(a.shared, b.shared) << "dim " << head_dim;
  }
}

TEST_P(Formats, RowsMayLieApartOrBackwards) {
  constexpr int32_t kDim = 40;
  const int32_t n = codec().block_rows();
  const Rows rows = test::normal_rows(n, kDim, 2);
  const Block want = test::encoded(codec(), kDim, rows);
  Rows apart(static_cast<size_t>(n) * 47, kNan);
  for (int32_t r = 0; r < n; ++r) {
    std::copy_n(rows.begin() + r * kDim, kDim, apart.begin() + (n - 1 - r) * 47);
  }
  Block got = test::block_of(codec(), kDim);
  codec().encode(kDim, apart.data() + (n - 1) * 47, -47, got.codes.data(), got.shared.data());
  EXPECT_EQ(got.codes, want.codes);
  EXPECT_EQ(got.shared, want.shared);
}

TEST_P(Formats, AnyRunOfRowsDecodesAlike) {
  const int32_t n = codec().block_rows();
  for (const int32_t head_dim : kHeadDims) {
    const Block block = test::encoded(codec(), head_dim, test::normal_rows(n, head_dim, 3));
    Rows whole(static_cast<size_t>(n * head_dim));
    block.decode(codec(), head_dim, 0, n, whole.data());
    for (const int32_t first : {0, n / 3, n - 1}) {
      Rows one(static_cast<size_t>(head_dim) + 1, 77.0f);
      block.decode(codec(), head_dim, first, 1, one.data());
      EXPECT_EQ(one.back(), 77.0f);
      one.pop_back();
      EXPECT_TRUE(std::equal(one.begin(), one.end(), whole.begin() + first * head_dim));
    }
  }
}

TEST_P(Formats, ZerosStayZero) {
  for (const int32_t head_dim : kHeadDims) {
    const Rows zeros(static_cast<size_t>(codec().block_rows() * head_dim), 0.0f);
    for (const float x : test::round_trip(codec(), head_dim, zeros)) ASSERT_EQ(x, 0.0f);
  }
}

// No range: the step is that of the zero's rounding to binary16, or of the scale's where there is
// no zero. Turned rows hold the root of head_dim times the constant, which must be a binary16 too.
TEST_P(Formats, ConstantsStayClose) {
  for (const float constant : {1.0f, -3.0f, 0.1f, 1e-6f, -60000.0f}) {
    if (codec().turned() && std::abs(constant) > 4000) continue;
    for (const int32_t head_dim : kHeadDims) {
      const Rows rows(static_cast<size_t>(codec().block_rows() * head_dim), constant);
      for (const float x : test::round_trip(codec(), head_dim, rows)) {
        ASSERT_NEAR(x, constant, std::abs(constant) * 0x1p-9f + 0x1p-22f) << "dim " << head_dim;
      }
    }
  }
}

TEST_P(Formats, InfinityIsTheLargestHalfAndNanIsZero) {
  for (const int32_t head_dim : kHeadDims) {
    Rows rows = test::normal_rows(codec().block_rows(), head_dim, 4);
    Rows plain = rows;
    const std::pair<float, float> odd[] = {
        {kInfinity, kMaxHalf}, {-kInfinity, -kMaxHalf}, {kNan, 0.0f}, {1e30f, kMaxHalf}};
    for (size_t i = 0; i < rows.size(); i += 5) {
      rows[i] = odd[i / 5 % 4].first;
      plain[i] = odd[i / 5 % 4].second;
    }
    const Block got = test::encoded(codec(), head_dim, rows);
    const Block want = test::encoded(codec(), head_dim, plain);
    EXPECT_EQ(got.codes, want.codes) << "dim " << head_dim;
    EXPECT_EQ(got.shared, want.shared) << "dim " << head_dim;
    for (const float x : test::round_trip(codec(), head_dim, rows)) ASSERT_TRUE(std::isfinite(x));
  }
}

TEST_P(Formats, ExtremesDecodeToFiniteValues) {
  for (const int32_t head_dim : kHeadDims) {
    Rows rows(static_cast<size_t>(codec().block_rows() * head_dim));
    std::mt19937 rng(5);
    for (float& x : rows) x = (rng() & 1) != 0 ? kMaxHalf : -kMaxHalf;
    for (const float x : test::round_trip(codec(), head_dim, rows)) ASSERT_TRUE(std::isfinite(x));
  }
}

// Scales from anywhere: infinite and NaN values are allowed, reading past the bytes is not.
TEST_P(Formats, AnyBytesDecode) {
  std::mt19937 rng(6);
  for (const int32_t head_dim : {1, 2, 31, 33, 64, 80, 100, 256}) {
    Block block = test::block_of(codec(), head_dim);
    for (std::byte& b : block.codes) b = static_cast<std::byte>(rng() & 0xFF);
    for (std::byte& b : block.shared) b = static_cast<std::byte>(rng() & 0xFF);
    Rows out(static_cast<size_t>(codec().block_rows() * head_dim));
    block.decode(codec(), head_dim, 0, codec().block_rows(), out.data());
  }
}

TEST(RowFormats, AreFoundByNameAndF16IsFirst) {
  EXPECT_EQ(row_formats().front().name, "f16");
  for (const RowFormat& format : row_formats()) {
    EXPECT_EQ(find_format(format.name), &format);
    EXPECT_FALSE(format.text.empty());
    EXPECT_EQ(format.k == nullptr, format.name == "f16");
    EXPECT_EQ(format.v == nullptr, format.name == "f16");
    EXPECT_FALSE(format.v != nullptr && format.v->turned()) << format.name;
  }
  EXPECT_EQ(find_format("int9"), nullptr);
  EXPECT_EQ(find_format(""), nullptr);
}

TEST(Quantize, HalfBelowAndAboveEncloseTheValue) {
  std::mt19937 rng(7);
  std::vector<float> values{0.0f, -0.0f, 1e-9f, -1e-9f, 65504.0f, -65504.0f, 65500.0f, -65500.0f};
  for (int i = 0; i < 20000; ++i) {
    const auto half = static_cast<uint16_t>(rng() & 0xFFFF);
    if ((half & 0x7FFF) >= kHalfInfinity) continue;
    const float x = half_to_float(half);
    for (const float y : {x, std::nextafter(x, 1.0f), std::nextafter(x, -1.0f)}) {
      values.push_back(y);
    }
  }
  for (const float x : values) {
    const float below = half_to_float(half_below(x));
    const float step = std::max(std::abs(x) * 0x1p-10f, 0x1p-24f);
    ASSERT_LE(below, x);
    ASSERT_GT(below, x - step * 1.01f) << x;
    if (x < 0) continue;
    const float above = half_to_float(half_above(x));
    ASSERT_GE(above, x);
    ASSERT_LT(above, x + step * 1.01f) << x;
  }
}

}  // namespace
}  // namespace kvasir
