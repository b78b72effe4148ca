#include "kernels/packed_rows.h"

#include <cassert>

namespace kvasir {
namespace {

using Strip = std::array<uint8_t, kStripChannels>;

std::byte* put_nibbles(const Strip& codes, size_t n, std::byte* out) {
  for (size_t j = 0; j < n / 2; ++j) {
    out[j] = static_cast<std::byte>((codes[j] & 15u) | (codes[j + n / 2] & 15u) << 4);
  }
  return out + n / 2;
}

std::byte* put_crumbs(const Strip& codes, size_t n, std::byte* out) {
  for (size_t j = 0; j < n / 4; ++j) {
    const uint8_t* const four = codes.data() + 4 * j;
    out[j] = static_cast<std::byte>((four[0] & 3u) | (four[1] & 3u) << 2 | (four[2] & 3u) << 4 |
                                    (four[3] & 3u) << 6);
  }
  return out + n / 4;
}

/// Bit `bit` of every code.
std::byte* put_bits(const Strip& codes, size_t n, int32_t bit, std::byte* out) {
  for (size_t j = 0; j < n / 8; ++j) {
    uint32_t byte = 0;
    for (size_t k = 0; k < 8; ++k) byte |= (codes[8 * j + k] >> bit & 1u) << k;
    out[j] = static_cast<std::byte>(byte);
  }
  return out + n / 8;
}

}  // namespace

void pack_codes(int32_t bits, int32_t head_dim, const uint8_t* codes, std::byte* out) {
  if (bits == 8) {
    std::transform(codes, codes + head_dim, out, [](uint8_t code) { return std::byte{code}; });
    return;
  }
  assert(bits >= 2 && bits <= 5);
  for (int32_t first = 0; first < head_dim; first += kStripChannels) {
    const auto used = static_cast<size_t>(std::min(kStripChannels, head_dim - first));
    const size_t n = (used + 7) / 8 * 8;
    Strip strip{};
    std::copy_n(codes + first, used, strip.begin());
    out = bits >= 4 ? put_nibbles(strip, n, out) : put_crumbs(strip, n, out);
    if (bits == 3 || bits == 5) out = put_bits(strip, n, bits - 1, out);
  }
}

}  // namespace kvasir
