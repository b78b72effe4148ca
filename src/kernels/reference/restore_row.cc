#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/reference/reference.h"

namespace kvasir::reference {

void restore_row(const RestoreArgs& args, float* out) {
  assert(args.n_fathers > 0 && args.head_dim <= kMaxHeadDim);
  std::array<float, kMaxHeadDim> row;
  const int32_t n = args.head_dim;
  std::fill_n(out, n, 0.0f);
  for (int32_t f = 0; f < args.n_fathers; ++f) {
    unpack_rows({args.references, n, 1, args.fathers[f], nullptr}, row.data());
    for (int32_t d = 0; d < n; ++d) out[d] += row[static_cast<size_t>(d)];
  }
  unpack_rows({args.difference, n, 1, args.packed, nullptr}, row.data());
  if (args.turned) turn_row(row.data(), n);
  for (int32_t d = 0; d < n; ++d) {
    out[d] = out[d] / static_cast<float>(args.n_fathers) + row[static_cast<size_t>(d)];
  }
}

void rotate_row(const RotateArgs& args, float* row) {
  const ptrdiff_t step = args.neox ? 1 : 2;
  float* const first = row + args.offset;
  float* const second = first + (args.neox ? args.n_pairs : 1);
  for (int32_t i = 0; i < args.n_pairs; ++i) {
    const double high_cos = double{args.high[i]}, high_sin = double{args.high[args.n_pairs + i]};
    const double low_cos = double{args.low[i]}, low_sin = double{args.low[args.n_pairs + i]};
    const double cosine = high_cos * low_cos - high_sin * low_sin;
    const double sine = high_sin * low_cos + high_cos * low_sin;
    const double x = double{first[i * step]}, y = double{second[i * step]};
    first[i * step] = static_cast<float>(x * cosine - y * sine);
    second[i * step] = static_cast<float>(x * sine + y * cosine);
  }
}

}  // namespace kvasir::reference
