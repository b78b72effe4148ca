// The bytes of every format, fixed for ever, on values whose codes a reader can work out.
#include "format/test_formats.h"

namespace kvasir {
namespace {

using test::Block;
using test::Rows;
using Bytes = std::vector<int>;

Bytes values_of(const std::vector<std::byte>& bytes) {
  Bytes values;
  for (const std::byte b : bytes) values.push_back(std::to_integer<int>(b));
  return values;
}

const RowCodec& k_of(std::string_view name) { return *find_format(name)->k; }
const RowCodec& v_of(std::string_view name) { return *find_format(name)->v; }

/// The first n bytes.
Bytes head(const Bytes& bytes, size_t n) {
  return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n)};
}

// 1.0 is 3C00, 2.0 is 4000, 0.5 is 3800, all with the low byte first.

// max|x| = 127: scale 1, codes are the rounded values; 2.5 and -1.5 are ties and go to even.
TEST(Golden, Int8) {
  const Block block = test::encoded(k_of("int8"), 6, {127, -127, 2.5f, -1.5f, 0, 3.4f});
  EXPECT_EQ(values_of(block.codes), (Bytes{0x00, 0x3C, 127, 0x81, 2, 0xFE, 0, 3}));
}

// 33 channels are a group of 32 and a group of one: scales 1 and 2, then all codes.
TEST(Golden, Int8ScalesEachGroup) {
  Rows row(33, 0.0f);
  row[0] = 127, row[31] = -64, row[32] = 254;
  const Bytes bytes = values_of(test::encoded(v_of("int8"), 33, row).codes);
  ASSERT_EQ(bytes.size(), 4u + 33u);
  EXPECT_EQ(head(bytes, 5), (Bytes{0x00, 0x3C, 0x00, 0x40, 127}));
  EXPECT_EQ(bytes[4 + 31], 0xC0);
  EXPECT_EQ(bytes[4 + 32], 127);
}

// Channel 0 holds 0, 1, .. 127: scale 1. Channel 1 holds their doubles, negative: scale 2.
TEST(Golden, Int8Channel) {
  Rows rows;
  for (int r = 0; r < 128; ++r) {
    rows.push_back(static_cast<float>(r));
    rows.push_back(static_cast<float>(-2 * r));
  }
  for (const RowCodec* codec : {&k_of("int8-channel"), &v_of("int8-channel")}) {
    const Block block = test::encoded(*codec, 2, rows);
    EXPECT_EQ(values_of(block.shared), (Bytes{0x00, 0x3C, 0x00, 0x40}));
    const Bytes codes = values_of(block.codes);
    ASSERT_EQ(codes.size(), 256u);
    for (int r = 0; r < 128; ++r) {
      EXPECT_EQ(codes[static_cast<size_t>(2 * r)], r);
      EXPECT_EQ(codes[static_cast<size_t>(2 * r) + 1], (256 - r) % 256);
    }
  }
}

}  // namespace
}  // namespace kvasir
