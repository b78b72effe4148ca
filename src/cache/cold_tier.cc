#include "cache/cold_tier.h"

#include <algorithm>

#include "kernels/half.h"

namespace kvasir {

void load_unrotated(const F16Tier& rows, int32_t row, int32_t position, const RopeTable* rope,
                    float* x) {
  const LayerGeometry& g = rows.geometry();
  uint16_t half[kMaxHeadDim];
  for (const bool is_k : {true, false}) {
    const int32_t head_dim = is_k ? g.head_dim_k : g.head_dim_v;
    for (int32_t h = 0; h < g.n_kv_heads; ++h, x += head_dim) {
      rows.read_head(row, h, is_k, half);
      std::transform(half, half + head_dim, x, half_to_float);
      if (is_k && rope != nullptr) rope->rotate_back(position, x);
    }
  }
}

}  // namespace kvasir
