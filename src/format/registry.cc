// The list of formats. A new one is a file that defines add_NAME and a line in KVASIR_FORMATS.
#include <algorithm>

#include "format/row_codec.h"

namespace kvasir {

// The order is that of --help. A name keeps its meaning for ever: it stands in saved caches.
#define KVASIR_FORMATS(ADD) \
  ADD(int8)                 \
  ADD(int8_channel)         \
  ADD(kivi)                 \
  ADD(int4)                 \
  ADD(nf4)                  \
  ADD(turned)

#define KVASIR_DECLARE(name) void add_##name(std::vector<RowFormat>& formats);
KVASIR_FORMATS(KVASIR_DECLARE)
#undef KVASIR_DECLARE

const std::vector<RowFormat>& row_formats() {
  static const std::vector<RowFormat> formats = [] {
    std::vector<RowFormat> list{{"f16", "rows as they are, binary16", nullptr, nullptr}};
#define KVASIR_ADD(name) add_##name(list);
    KVASIR_FORMATS(KVASIR_ADD)
#undef KVASIR_ADD
    return list;
  }();
  return formats;
}

const RowFormat* find_format(std::string_view name) {
  const auto& formats = row_formats();
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [name](const RowFormat& f) { return f.name == name; });
  return found != formats.end() ? &*found : nullptr;
}

double bytes_per_row(const RowCodec* codec, int32_t head_dim) {
  if (codec == nullptr) return 2.0 * head_dim;
  return static_cast<double>(codec->row_bytes(head_dim)) +
         static_cast<double>(codec->shared_bytes(head_dim)) / codec->block_rows();
}

}  // namespace kvasir
