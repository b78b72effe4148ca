// The axes along which a set of rows varies most.
//
// What a low rank of K and V keeps (Palu, arXiv 2407.21118, decomposes the weights that make them;
// here the rows themselves are decomposed, which asks nothing of the model's file).
#pragma once

#include <cstdint>
#include <vector>

namespace kvasir {

struct PrincipalAxes {
  std::vector<float> mean;  ///< [width]
  std::vector<float> axes;  ///< [rank, width], orthonormal, most variance first
};

/// Of rows [n, width], `stride` elements apart. Requires: n >= 1, 1 <= rank <= width. Axes past the
/// rank of the rows are some that are orthogonal to the others.
PrincipalAxes principal_axes(const float* rows, int32_t n, int64_t stride, int32_t width,
                             int32_t rank);

/// The most bytes that principal_axes() takes on the way, beside its result.
int64_t principal_axes_bytes(int32_t width);

}  // namespace kvasir
