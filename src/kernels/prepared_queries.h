// Where attend_coded keeps what it makes of query rows. Inside src/kernels/ only.
//
// A row q becomes q[d] ~ step * (256 * high[d] + low[d]) with high in [-127, 127] and low in [-128,
// 127]: two dot products of bytes, and a rounding of 2^-16 of the largest |q|.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/packed_rows.h"

namespace kvasir {

class PreparedQueries {
 public:
  static constexpr int32_t kMostGroups = (kMaxHeadDim + kStripChannels - 1) / kStripChannels;

  /// @param memory  64-byte aligned, or null to ask for bytes() alone
  PreparedQueries(std::byte* memory, int32_t n_rows, int32_t head_dim)
      : n_rows_(n_rows), padded_((head_dim + 63) / 64 * 64), memory_(memory) {}

  size_t bytes() const { return at(floats_at() + rows(2 * sizeof(float)), 0); }

  /// Channels of a row of bytes; those past head_dim are 0.
  int32_t padded() const { return padded_; }
  int8_t* high(int32_t row) const { return bytes_at(row); }
  int8_t* low(int32_t row) const { return bytes_at(n_rows_ + row); }
  /// Sum of high (low) over each group of channels.
  int32_t* high_sums(int32_t row) const { return sums_at(row); }
  int32_t* low_sums(int32_t row) const { return sums_at(n_rows_ + row); }
  float& step(int32_t row) const { return floats()[row]; }
  /// q . what all rows of a block have in common: its mean or zeros.
  float& base(int32_t row) const { return floats()[n_rows_ + row]; }

 private:
  size_t rows(size_t bytes_of_row) const { return static_cast<size_t>(n_rows_) * bytes_of_row; }
  static size_t at(size_t bytes, size_t offset) { return (bytes + 63) / 64 * 64 + offset; }
  size_t sums_offset() const { return rows(2 * static_cast<size_t>(padded_)); }
  size_t floats_at() const { return sums_offset() + rows(2 * kMostGroups * sizeof(int32_t)); }

  int8_t* bytes_at(int32_t index) const {
    return reinterpret_cast<int8_t*>(memory_) + static_cast<ptrdiff_t>(index) * padded_;
  }
  int32_t* sums_at(int32_t index) const {
    return reinterpret_cast<int32_t*>(memory_ + sums_offset()) +
           static_cast<ptrdiff_t>(index) * kMostGroups;
  }
  float* floats() const { return reinterpret_cast<float*>(memory_ + floats_at()); }

  int32_t n_rows_, padded_;
  std::byte* memory_;
};

}  // namespace kvasir
