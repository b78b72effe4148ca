// The f16 side of a mixed format: rows as they are, for the side that is not compressed.
#pragma once

#include "format/row_codec.h"

namespace kvasir {

/// Binary16 values in order of channel, little endian; no loss where rows are f16 already.
const RowCodec& f16_codec();

}  // namespace kvasir
