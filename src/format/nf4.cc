// nf4: NormalFloat-4 (QLoRA, arXiv 2305.14314), the largest absolute value of 32 channels of a
// token as the scale. The ablation of CONF-KV. 4.5 bits a value.
#include "format/group_codec.h"

namespace kvasir {

void add_nf4(std::vector<RowFormat>& formats) {
  static const GroupCodec codec({.levels = Levels::kNf4, .bits = 4, .scaling = Scaling::kGroup});
  formats.push_back(
      {"nf4", "4 bits of unequal steps, a scale per token and 32 channels", &codec, &codec});
}

}  // namespace kvasir
