#include "format/row_codec.h"
#include "kernels/kernels.h"

namespace kvasir {

void turn_row(float* row, int32_t head_dim) { best_kernels().turn_row(row, head_dim); }

}  // namespace kvasir
