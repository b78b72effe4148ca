// unpack_rows: the layout of codes by hand, and every table against the reference, bit for bit.
#include <bit>
#include <cstring>
#include <numeric>

#include "kernels/packed_rows.h"
#include "kernels/reference/reference.h"
#include "kernels/test_support.h"

namespace kvasir {
namespace {

std::vector<uint32_t> bytes_of(int32_t bits, const std::vector<uint32_t>& codes) {
  const auto n = static_cast<int32_t>(codes.size());
  Packing packing;
  packing.bits = bits;
  std::vector<std::byte> packed(packing.code_bytes(n));
  const std::vector<uint8_t> narrow(codes.begin(), codes.end());
  pack_codes(bits, n, narrow.data(), packed.data());
  for (int32_t d = 0; d < n; ++d) {
    EXPECT_EQ(get_code(packed.data(), bits, n, d), codes[static_cast<size_t>(d)]) << d;
  }
  std::vector<uint32_t> out;
  for (const std::byte b : packed) out.push_back(std::to_integer<uint32_t>(b));
  return out;
}

using Bytes = std::vector<uint32_t>;

TEST(PackedCodes, LieInTheirPlanes) {
  EXPECT_EQ(bytes_of(8, {1, 2, 255}), (Bytes{1, 2, 255}));
  // eight channels: byte j has channel j low, channel j + 4 high
  EXPECT_EQ(bytes_of(4, {1, 2, 3, 4, 5, 6, 7, 8}), (Bytes{0x51, 0x62, 0x73, 0x84}));
  // three channels are a strip of eight with five zeros
  EXPECT_EQ(bytes_of(4, {1, 2, 15}), (Bytes{0x01, 0x02, 0x0F, 0x00}));
  // the highest bits of channels 1 and 7 are set
  EXPECT_EQ(bytes_of(5, {1, 18, 3, 4, 5, 6, 7, 24}), (Bytes{0x51, 0x62, 0x73, 0x84, 0x82}));
  // crumbs, four channels a byte
  EXPECT_EQ(bytes_of(2, {0, 1, 2, 3, 3, 2, 1, 0}), (Bytes{0xE4, 0x1B}));
  EXPECT_EQ(bytes_of(3, {4, 1, 2, 3, 3, 2, 1, 4}), (Bytes{0xE4, 0x1B, 0x81}));
}

TEST(PackedCodes, FillWholeStripsBeforeTheRest) {
  std::vector<uint32_t> codes(40);  // a strip of 32 and one of 8
  std::iota(codes.begin(), codes.end(), 0u);
  for (uint32_t& code : codes) code %= 16;
  const Bytes bytes = bytes_of(4, codes);
  ASSERT_EQ(bytes.size(), 20u);
  for (uint32_t j = 0; j < 16; ++j) EXPECT_EQ(bytes[j], j | j << 4);  // 16 + j is j modulo 16
  EXPECT_EQ(bytes[16], 0x40u);                                        // channels 32 and 36
  EXPECT_EQ(bytes[19], 0x73u);                                        // channels 35 and 39
}

TEST(PackedCodes, OfEveryWidthAndLengthAreReadBack) {
  std::mt19937 rng(12);
  for (const int32_t bits : {2, 3, 4, 5, 8}) {
    for (size_t n = 1; n <= 100; ++n) {
      std::vector<uint32_t> codes(n);
      for (uint32_t& code : codes) code = static_cast<uint32_t>(rng()) % (1u << bits);
      bytes_of(bits, codes);  // expects it
    }
  }
}

/// Every packing that unpack_rows knows, with groups of 32 and of 64 channels.
std::vector<Packing> all_packings() {
  std::vector<Packing> packings;
  for (const bool large : {false, true}) {
    const auto add = [&](Levels levels, int32_t bits, Scaling scaling) {
      packings.push_back({levels, bits, scaling, large ? 64 : 32, large});
    };
    add(Levels::kSigned, 8, Scaling::kGroup);
    add(Levels::kSigned, 8, Scaling::kChannel);
    add(Levels::kNf4, 4, Scaling::kGroup);
    for (const int32_t bits : {2, 3, 4, 5, 8}) {
      add(Levels::kUnsigned, bits, Scaling::kGroupZero);
      add(Levels::kUnsigned, bits, Scaling::kGroupZeroMean);
      add(Levels::kUnsigned, bits, Scaling::kChannelZero);
    }
  }
  return packings;
}

/// Bytes at an odd address that end where their memory ends.
class Bytestring {
 public:
  Bytestring(size_t n, std::mt19937& rng) : bytes_(n + 1) {
    for (std::byte& b : bytes_) b = static_cast<std::byte>(rng() & 0xFF);
  }
  const std::byte* data() const { return bytes_.data() + 1; }

 private:
  std::vector<std::byte> bytes_;
};

bool same_value(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

void expect_as_reference(const KvKernels& table, const Packing& packing, int32_t head_dim,
                         int32_t n_rows, std::mt19937& rng) {
  const Bytestring rows(packing.row_bytes(head_dim) * static_cast<size_t>(n_rows), rng);
  const Bytestring shared(static_cast<size_t>(head_dim) * 4, rng);
  const PackedRows args{packing, head_dim, n_rows, rows.data(), shared.data()};
  const auto n = static_cast<size_t>(head_dim * n_rows);
  std::vector<float> want(n), got(n + 1, test::kNan);
  got.back() = test::kCanary;
  reference::unpack_rows(args, want.data());
  table.unpack_rows(args, got.data());
  EXPECT_EQ(got.back(), test::kCanary);
  for (size_t i = 0; i < n; ++i) {
    ASSERT_TRUE(same_value(got[i], want[i]))
        << "levels " << static_cast<int>(packing.levels) << ", bits " << packing.bits
        << ", scaling " << static_cast<int>(packing.scaling) << ", groups of "
        << packing.group_channels << ", dim " << head_dim << ", value " << i << ": " << got[i]
        << " instead of " << want[i];
  }
}

class UnpackRows : public test::TableTest {};

// Random bytes are every code, and scales of every size, infinite and NaN ones too.
TEST_P(UnpackRows, AgreesWithTheReference) {
  std::mt19937 rng(11);
  for (const Packing& packing : all_packings()) {
    for (const int32_t head_dim :
         {1, 7, 8, 9, 17, 24, 31, 32, 33, 64, 80, 96, 100, 128, 200, 256}) {
      for (const int32_t n_rows : {1, 5}) {
        expect_as_reference(*GetParam(), packing, head_dim, n_rows, rng);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// 1.5 * level + 2, + the mean 0.25 * d: the values that a reader would compute by hand.
TEST_P(UnpackRows, GivesScaleTimesLevelPlusZeroPlusMean) {
  constexpr int32_t kDim = 40;
  constexpr uint16_t kScale = 0x3E00, kZero = 0x4000;  // 1.5 and 2
  for (const int32_t bits : {2, 3, 4, 5, 8}) {
    const Packing packing{Levels::kUnsigned, bits, Scaling::kGroupZeroMean, 64, true};
    std::vector<std::byte> row(packing.row_bytes(kDim)), shared(2 * kDim);
    std::vector<uint8_t> codes(kDim);
    std::memcpy(row.data(), &kScale, 2);
    std::memcpy(row.data() + 2, &kZero, 2);
    for (int32_t d = 0; d < kDim; ++d) {
      const uint16_t mean = float_to_half(0.25f * static_cast<float>(d));
      std::memcpy(shared.data() + 2 * d, &mean, 2);
      codes[static_cast<size_t>(d)] = static_cast<uint8_t>(d % (1 << bits));
    }
    pack_codes(bits, kDim, codes.data(), row.data() + 4);
    std::vector<float> out(kDim);
    GetParam()->unpack_rows({packing, kDim, 1, row.data(), shared.data()}, out.data());
    for (int32_t d = 0; d < kDim; ++d) {
      EXPECT_EQ(out[static_cast<size_t>(d)],
                1.5f * static_cast<float>(d % (1 << bits)) + 2 + 0.25f * static_cast<float>(d));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, UnpackRows, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
