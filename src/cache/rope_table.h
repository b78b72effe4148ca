// Rotary position embedding at any position: taking a key's rotation off and putting it on again
// (RoFormer, arXiv 2104.09864, eq. 15).
//
// Keys that are stored without their rotation (the residual tier) need the cosines and sines of
// every position that they are read at. They are put together from two small tables, by the sum of
// angles: position = 256 high + low. What YaRN scales stays with the row, since only angles count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/rope.h"
#include "kernels/kernels.h"

namespace kvasir {

class RopeTable {
 public:
  explicit RopeTable(RopeSpec spec);

  const RopeSpec& spec() const { return spec_; }

  /// Makes positions up to `position` ready. Not thread-safe; rotate() may run at once elsewhere
  /// for positions that were ready before only if memory need not move, so call it between steps.
  void cover(int32_t position);

  /// What rotate() turns by, for the kernels. Valid until cover(). Requires: 0 <= position,
  /// covered.
  RotateArgs rotation(int32_t position) const;

  /// Rotates a row, [head_dim] f32 of one head, from position 0 to `position`, in place; `back`
  /// does the reverse. Error below 2^-22 of the length of each pair. Requires: 0 <= position,
  /// covered. Thread-safe.
  void rotate(int32_t position, float* row) const { turn<false>(position, row); }
  void rotate_back(int32_t position, float* row) const { turn<true>(position, row); }

  /// The most bytes that a table of heads of `head_dim` takes for positions below n_positions, at
  /// any time while they are covered step by step.
  static int64_t most_bytes(int32_t head_dim, int64_t n_positions);
  size_t bytes() const { return (low_.capacity() + high_.capacity()) * sizeof(float); }

 private:
  template <bool kBack>
  void turn(int32_t position, float* row) const;
  void append(std::vector<float>& table, int64_t position) const;

  static constexpr int32_t kLow = 256;
  RopeSpec spec_;
  std::vector<float> low_;   // [kLow, 2 n_pairs]: cosines, then sines
  std::vector<float> high_;  // [positions / kLow, 2 n_pairs]
};

}  // namespace kvasir
