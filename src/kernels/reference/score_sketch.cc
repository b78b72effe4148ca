#include <cmath>

#include "kernels/half.h"
#include "kernels/reference/reference.h"

namespace kvasir::reference {

void score_sketch(const SketchArgs& args, ScoreSums* sums) {
  for (int32_t row = 0; row < args.n_rows; ++row) {
    const SketchQuery& query = args.queries[row];
    float* const scores = args.scores[row];
    float most = -INFINITY;
    for (int32_t slot = 0; slot < args.n_slots; ++slot) {
      int32_t sum = 0;
      for (int32_t b = 0; b < args.n_bytes; ++b) {
        const uint8_t code = args.codes[b * kPageSlots + slot];
        const uint8_t* tables = query.tables + ptrdiff_t{b} * 32;
        sum += tables[code & 15] + tables[16 + (code >> 4)];
      }
      const double key = double{query.step} * sum + double{query.offset};
      scores[slot] = static_cast<float>(key * double{half_to_float(args.steps[slot])});
      most = std::fmax(most, scores[slot]);
    }
    double sum = 0;
    for (int32_t slot = 0; slot < args.n_slots; ++slot) {
      sum += std::exp(double{scores[slot]} - double{most});
    }
    sums[row] = {most, static_cast<float>(sum)};
  }
}

}  // namespace kvasir::reference
