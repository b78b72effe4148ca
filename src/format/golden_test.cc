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

// Channels -1 .. 14 (zero -1, scale 1) and 0 .. 30 by twos (zero 0, scale 2). Row r holds code
// r % 16 in both, each in a nibble of its own: two channels are a strip of 8, byte j has channel j.
TEST(Golden, Kivi4Keys) {
  Rows rows;
  for (int r = 0; r < 32; ++r) {
    rows.push_back(static_cast<float>(r % 16 - 1));
    rows.push_back(static_cast<float>(r % 16 * 2));
  }
  const Block block = test::encoded(k_of("kivi4"), 2, rows);
  // scales 1 and 2, zeros -1 and 0
  EXPECT_EQ(values_of(block.shared), (Bytes{0x00, 0x3C, 0x00, 0x40, 0x00, 0xBC, 0x00, 0x00}));
  const Bytes codes = values_of(block.codes);
  ASSERT_EQ(codes.size(), 32u * 4u);
  for (int r = 0; r < 32; ++r) {
    const auto at = codes.begin() + 4 * r;
    EXPECT_EQ(Bytes(at, at + 4), (Bytes{r % 16, r % 16, 0, 0}));
  }
}

// The same with four levels: two channels are two crumbs of the first byte.
TEST(Golden, Kivi2Keys) {
  Rows rows;
  for (int r = 0; r < 32; ++r) {
    rows.push_back(static_cast<float>(r % 4 - 1));
    rows.push_back(static_cast<float>((3 - r % 4) * 2));
  }
  const Block block = test::encoded(k_of("kivi2"), 2, rows);
  EXPECT_EQ(values_of(block.shared), (Bytes{0x00, 0x3C, 0x00, 0x40, 0x00, 0xBC, 0x00, 0x00}));
  const Bytes codes = values_of(block.codes);
  ASSERT_EQ(codes.size(), 32u * 2u);
  for (int r = 0; r < 32; ++r) {
    EXPECT_EQ(codes[static_cast<size_t>(2 * r)], r % 4 | (3 - r % 4) << 2);
    EXPECT_EQ(codes[static_cast<size_t>(2 * r) + 1], 0);
  }
}

// Scale 0.5, zero -1; (2.3 + 1) / 0.5 = 6.6 becomes 7, (0.25 + 1) / 0.5 = 2.5 is a tie: 2.
TEST(Golden, FourBitRows) {
  const Rows row{-1, 6.5f, 2.3f, 0.25f, 0, 0, 0, 0};  // codes 0, 15, 7, 2, and 2 for each 0
  const Bytes want{0x00, 0x38, 0x00, 0xBC, 0x20, 0x2F, 0x27, 0x22};
  for (const char* name : {"int4", "kivi4", "k5v4"}) {
    EXPECT_EQ(values_of(test::encoded(v_of(name), 8, row).codes), want) << name;
  }
  EXPECT_EQ(values_of(test::encoded(k_of("int4"), 8, row).codes), want);
}

// Scale 1, zero 0: codes 0 to 3.
TEST(Golden, TwoBitRows) {
  const Bytes want{0x00, 0x3C, 0x00, 0x00, 0xE4, 0x1B};
  for (const char* name : {"kivi2", "k3v2"}) {
    const Block block = test::encoded(v_of(name), 8, {0, 1, 2, 3, 3, 2, 1, 0});
    EXPECT_EQ(values_of(block.codes), want) << name;
  }
}

// Scale 2, so the levels are twice the table's: 2 is its last entry, -2 its first, 0 its eighth;
// 0.3 / 2 = 0.15 is nearest to .1609 (9), 1 / 2 to .4407 (12: .0593 away, the next one .0626).
TEST(Golden, Nf4) {
  const Block block = test::encoded(k_of("nf4"), 8, {2, -2, 0, 0.3f, 1, 0, 0, 0});
  EXPECT_EQ(values_of(block.codes), (Bytes{0x00, 0x40, 0xCF, 0x70, 0x77, 0x79}));
}

// A row of one channel is not changed by turning. 127 zeros and one 128 have the mean 1; -1 and 127
// remain. They have no range: scale 0, and the value itself as the zero.
TEST(Golden, TurnedKeysOfOneChannel) {
  Rows rows(128, 0.0f);
  rows[127] = 128;
  const Block block = test::encoded(k_of("k5v4"), 1, rows);
  EXPECT_EQ(values_of(block.shared), (Bytes{0x00, 0x3C}));
  const Bytes codes = values_of(block.codes);
  const Bytes first{0x00, 0x00, 0x00, 0xBC, 0, 0, 0, 0, 0};  // zero -1
  const Bytes last{0x00, 0x00, 0xF0, 0x57, 0, 0, 0, 0, 0};   // zero 127
  ASSERT_EQ(codes.size(), 128u * 9u);
  EXPECT_EQ(head(codes, 9), first);
  EXPECT_EQ(Bytes(codes.end() - 9, codes.end()), last);
}

/// What k*v* keep of the row that holds 0, 1, .. 7 turned, in a block whose other half is its
/// negative: the means are 0, the turned row is encoded as it is.
Block turned_block(std::string_view name, const std::vector<float>& turned) {
  Rows row = turned;
  turn_row(row.data(), 8);
  Rows rows;
  for (int r = 0; r < 128; ++r) {
    for (const float x : row) rows.push_back(r % 2 == 0 ? x : -x);
  }
  return test::encoded(k_of(name), 8, rows);
}

// The levels 0 .. 2^b - 1 themselves, with scale 1 and zero 0 but for the rounding of the turning,
// which the codes do not see.
TEST(Golden, TurnedKeysOfEightChannels) {
  const Block three = turned_block("k3v2", {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(values_of(three.shared), Bytes(16, 0));
  const Bytes codes = values_of(three.codes);
  ASSERT_EQ(codes.size(), 128u * 7u);
  EXPECT_EQ(Bytes(codes.begin() + 4, codes.begin() + 7), (Bytes{0xE4, 0xE4, 0xF0}));
  // the negative row: 7 - code
  EXPECT_EQ(Bytes(codes.begin() + 11, codes.begin() + 14), (Bytes{0x1B, 0x1B, 0x0F}));

  const Bytes five = values_of(turned_block("k5v4", {0, 31, 16, 3, 17, 1, 2, 30}).codes);
  ASSERT_EQ(five.size(), 128u * 9u);
  EXPECT_EQ(Bytes(five.begin() + 4, five.begin() + 9), (Bytes{0x10, 0x1F, 0x20, 0xE3, 0x96}));

  const Bytes eight = values_of(turned_block("k8v4", {0, 255, 128, 3, 17, 1, 2, 30}).codes);
  ASSERT_EQ(eight.size(), 128u * 12u);
  EXPECT_EQ(Bytes(eight.begin() + 4, eight.begin() + 12), (Bytes{0, 255, 128, 3, 17, 1, 2, 30}));
}

}  // namespace
}  // namespace kvasir
