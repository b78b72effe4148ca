// Made-up tokens for the tests of this folder.
#pragma once

#include <random>

#include "eval/neighbours/token_vectors.h"

namespace kvasir::eval::testing {

inline TokenVectors random_vectors(int32_t n, int32_t width_k, int32_t width_v, uint32_t seed) {
  TokenVectors vectors{n, width_k, width_v, {}};
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  vectors.x.resize(static_cast<size_t>(n) * static_cast<size_t>(vectors.width()));
  for (float& x : vectors.x) x = normal(generator);
  return vectors;
}

}  // namespace kvasir::eval::testing
