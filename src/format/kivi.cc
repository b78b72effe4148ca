// kivi4, kivi2: asymmetric, K per channel over 32 consecutive rows, V per token and 32 channels
// (Liu et al. 2024, KIVI, arXiv 2402.02750): keys have channels of unusual size, values do not.
// 5 and 3 bits a value.
#include "format/channel_codec.h"
#include "format/group_codec.h"

namespace kvasir {
namespace {

constexpr int32_t kBlockRows = 32;

struct Kivi {
  explicit Kivi(int32_t bits)
      : k({.bits = bits, .scaling = Scaling::kChannelZero}, kBlockRows),
        v({.bits = bits, .scaling = Scaling::kGroupZero}) {}

  ChannelCodec k;
  GroupCodec v;
};

}  // namespace

void add_kivi(std::vector<RowFormat>& formats) {
  static const Kivi four(4);
  static const Kivi two(2);
  formats.push_back({"kivi4", "4 bits, K per channel and 32 tokens, V per token and 32 channels",
                     &four.k, &four.v});
  formats.push_back({"kivi2", "2 bits, K per channel and 32 tokens, V per token and 32 channels",
                     &two.k, &two.v});
}

}  // namespace kvasir
