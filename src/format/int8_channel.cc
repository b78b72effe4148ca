// int8-channel: symmetric, one scale per head and channel over 128 consecutive rows, s = max|x| /
// 127: the format of CONF-KV (arXiv 2605.24786, section on mixed precision), which leaves the rows
// that share a scale open. 8.125 bits a value.
#include "format/channel_codec.h"

namespace kvasir {

void add_int8_channel(std::vector<RowFormat>& formats) {
  static const ChannelCodec codec(
      {.levels = Levels::kSigned, .bits = 8, .scaling = Scaling::kChannel}, kMaxBlockRows);
  formats.push_back({"int8-channel", "8 bits, a scale per channel and 128 tokens", &codec, &codec});
}

}  // namespace kvasir
