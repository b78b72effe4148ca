// int8: symmetric, one scale per token, head and 32 channels, like ggml's q8_0 but with the scales
// of a row before its codes. 8.5 bits a value.
#include "format/group_codec.h"

namespace kvasir {

void add_int8(std::vector<RowFormat>& formats) {
  static const GroupCodec codec({.levels = Levels::kSigned, .bits = 8, .scaling = Scaling::kGroup});
  formats.push_back({"int8", "8 bits, a scale per token and 32 channels", &codec, &codec});
}

}  // namespace kvasir
