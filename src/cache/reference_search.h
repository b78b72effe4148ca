// Which references are nearest to which rows: squared L2, brute force, several rows at a time.
//
// DeltaKV (arXiv 2602.08005) ranks by 2 x.c - |c|^2, since |x|^2 is the same for all references of
// a row. Products are f32, |c|^2 is summed in double.
#pragma once

#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "kernels/kernels.h"

namespace kvasir {

/// The best so far of some rows: best score first; equal scores: the one shown first.
struct NearestSet {
  int32_t n_rows, k;
  float* score;    ///< [n_rows, k]
  int32_t* index;  ///< [n_rows, k]; -1 where fewer were shown

  void reset() const;
  void offer(int32_t row, int32_t candidate, float value) const;
};

/// Rows and some of the candidates that they may choose from.
struct SearchTile {
  const float* x;      ///< [n_rows, width]
  const float* refs;   ///< [n_refs, width]
  const float* norms;  ///< [n_refs] squared lengths
  int32_t n_refs, width;
  int32_t first;  ///< number of the first candidate of the tile
  /// [n_rows] row r may choose among candidates [0, n_visible[r])
  std::span<const int32_t> n_visible;
};

/// Shows a tile to all rows.
void search_tile(const SearchTile& tile, const KvKernels& kernels, ParallelFor& parallel,
                 const NearestSet& nearest);

/// Squared length of each row, [n, width].
void squared_lengths(const float* rows, int32_t n, int32_t width, float* out);

}  // namespace kvasir
