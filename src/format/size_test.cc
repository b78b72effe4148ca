// Bytes of a token and KV head, for every format: one table, checked against the codecs.
#include <gtest/gtest.h>

#include "format/row_codec.h"

namespace kvasir {
namespace {

struct Size {
  std::string_view name;
  double k64, v64;    ///< bytes of a row of 64 values, shared bytes spread over their block
  double k128, v128;  ///< of 128 values
};

// scales and codes, + shared / rows of a block
constexpr Size kSizes[] = {
    {"f16", 128, 128, 256, 256},
    {"int8", 4 + 64, 4 + 64, 8 + 128, 8 + 128},
    {"int8-channel", 64 + 1, 64 + 1, 128 + 2, 128 + 2},
    {"kivi4", 32 + 8, 8 + 32, 64 + 16, 16 + 64},
    {"kivi2", 16 + 8, 8 + 16, 32 + 16, 16 + 32},
    {"int4", 8 + 32, 8 + 32, 16 + 64, 16 + 64},
    {"nf4", 4 + 32, 4 + 32, 8 + 64, 8 + 64},
    {"k8v4", 4 + 64 + 1, 4 + 32, 8 + 128 + 2, 8 + 64},
    {"k5v4", 4 + 40 + 1, 4 + 32, 8 + 80 + 2, 8 + 64},
    {"k4v4", 4 + 32 + 1, 4 + 32, 8 + 64 + 2, 8 + 64},
    {"k4v2", 4 + 32 + 1, 4 + 16, 8 + 64 + 2, 8 + 32},
    {"k3v2", 4 + 24 + 1, 4 + 16, 8 + 48 + 2, 8 + 32},
};

TEST(Sizes, AreTheTable) {
  ASSERT_EQ(std::size(kSizes), row_formats().size());
  for (const Size& size : kSizes) {
    const RowFormat* format = find_format(size.name);
    ASSERT_NE(format, nullptr) << size.name;
    EXPECT_EQ(bytes_per_row(format->k, 64), size.k64) << size.name;
    EXPECT_EQ(bytes_per_row(format->v, 64), size.v64) << size.name;
    EXPECT_EQ(bytes_per_row(format->k, 128), size.k128) << size.name;
    EXPECT_EQ(bytes_per_row(format->v, 128), size.v128) << size.name;
  }
}

// Strips of 8 codes at the end of a row, groups that are shorter or longer.
TEST(Sizes, OfOtherHeadDims) {
  const RowFormat& int8 = *find_format("int8");
  EXPECT_EQ(int8.k->row_bytes(1), 2u + 1u);
  EXPECT_EQ(int8.k->row_bytes(33), 4u + 33u);
  EXPECT_EQ(int8.k->row_bytes(100), 8u + 100u);
  const RowFormat& k5v4 = *find_format("k5v4");
  EXPECT_EQ(k5v4.k->row_bytes(1), 4u + 5u);
  EXPECT_EQ(k5v4.k->row_bytes(80), 4u + 50u);   // one group of 80
  EXPECT_EQ(k5v4.k->row_bytes(100), 4u + 65u);  // 104 codes
  EXPECT_EQ(k5v4.v->row_bytes(160), 8u + 80u);  // 64 and 96
  EXPECT_EQ(k5v4.k->shared_bytes(80), 160u);
}

TEST(Sizes, K5v4IsUnderAThirdOfF16) {
  const RowFormat& format = *find_format("k5v4");
  for (const int32_t head_dim : {64, 80, 96, 112, 128, 160, 192, 256, 576}) {
    const double bytes = bytes_per_row(format.k, head_dim) + bytes_per_row(format.v, head_dim);
    EXPECT_LE(bytes / (4.0 * head_dim), 0.32) << head_dim;
  }
}

}  // namespace
}  // namespace kvasir
