// int4: asymmetric, one scale and zero per token, head and 32 channels. The plain 4-bit format that
// CONF-KV compares with. 5 bits a value.
#include "format/group_codec.h"

namespace kvasir {

void add_int4(std::vector<RowFormat>& formats) {
  static const GroupCodec codec({.bits = 4, .scaling = Scaling::kGroupZero});
  formats.push_back({"int4", "4 bits, a scale and zero per token and 32 channels", &codec, &codec});
}

}  // namespace kvasir
