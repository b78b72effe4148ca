#include "cache/reference_search.h"

#include <algorithm>
#include <limits>

namespace kvasir {
namespace {

constexpr int32_t kRows = 16;  // rows and references of one call of the kernel
constexpr int32_t kRefs = 64;

}  // namespace

void NearestSet::reset() const {
  std::fill_n(score, ptrdiff_t{n_rows} * k, -std::numeric_limits<float>::infinity());
  std::fill_n(index, ptrdiff_t{n_rows} * k, -1);
}

void NearestSet::offer(int32_t row, int32_t candidate, float value) const {
  float* scores = score + ptrdiff_t{row} * k;
  int32_t* indices = index + ptrdiff_t{row} * k;
  int32_t at = k;
  while (at > 0 && (indices[at - 1] < 0 || value > scores[at - 1])) --at;
  if (at == k) return;
  std::copy_backward(scores + at, scores + k - 1, scores + k);
  std::copy_backward(indices + at, indices + k - 1, indices + k);
  scores[at] = value;
  indices[at] = candidate;
}

void search_tile(const SearchTile& tile, const KvKernels& kernels, ParallelFor& parallel,
                 const NearestSet& nearest) {
  parallel.run((nearest.n_rows + kRows - 1) / kRows, [&](int64_t item, int32_t) {
    const auto first_row = static_cast<int32_t>(item) * kRows;
    const int32_t n_rows = std::min(kRows, nearest.n_rows - first_row);
    int32_t most = 0;
    for (int32_t r = first_row; r < first_row + n_rows; ++r) {
      most = std::max(most, tile.n_visible[static_cast<size_t>(r)] - tile.first);
    }
    const int32_t n_refs = std::min(tile.n_refs, most);
    float dots[kRows * kRefs];
    for (int32_t ref = 0; ref < n_refs; ref += kRefs) {
      const int32_t n = std::min(kRefs, n_refs - ref);
      kernels.dot_rows(tile.x + ptrdiff_t{first_row} * tile.width, n_rows,
                       tile.refs + ptrdiff_t{ref} * tile.width, n, tile.width, dots);
      for (int32_t r = 0; r < n_rows; ++r) {
        const int32_t row = first_row + r;
        const int32_t visible =
            std::min(n, tile.n_visible[static_cast<size_t>(row)] - tile.first - ref);
        for (int32_t j = 0; j < visible; ++j) {
          nearest.offer(row, tile.first + ref + j, 2 * dots[r * n + j] - tile.norms[ref + j]);
        }
      }
    }
  });
}

void squared_lengths(const float* rows, int32_t n, int32_t width, float* out) {
  for (int32_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int32_t d = 0; d < width; ++d) {
      const double x = static_cast<double>(rows[ptrdiff_t{i} * width + d]);
      sum += x * x;
    }
    out[i] = static_cast<float>(sum);
  }
}

}  // namespace kvasir
