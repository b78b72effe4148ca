// The tokens of a text in one layer, each as DeltaKV sees it (arXiv 2602.08005): one vector of the
// keys of all KV heads without their rotation and the values of all KV heads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvasir::eval {

struct TokenVectors {
  int32_t n = 0;
  int32_t width_k = 0;   ///< the first elements: keys, head after head
  int32_t width_v = 0;   ///< the others: values
  std::vector<float> x;  ///< [n, width()], by position

  int32_t width() const { return width_k + width_v; }
  const float* at(int32_t token) const { return x.data() + ptrdiff_t{token} * width(); }
};

}  // namespace kvasir::eval
