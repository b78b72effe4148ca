#include "kernels/reference/reference.h"

namespace kvasir::reference {

void dot_rows(const float* a, int32_t n_a, const float* b, int32_t n_b, int32_t dim, float* out) {
  for (int32_t i = 0; i < n_a; ++i) {
    const float* row_a = a + static_cast<ptrdiff_t>(i) * dim;
    for (int32_t j = 0; j < n_b; ++j) {
      const float* row_b = b + static_cast<ptrdiff_t>(j) * dim;
      double sum = 0;
      for (int32_t d = 0; d < dim; ++d) {
        sum += static_cast<double>(row_a[d]) * static_cast<double>(row_b[d]);
      }
      out[static_cast<ptrdiff_t>(i) * n_b + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace kvasir::reference
