// Formats whose scales belong to channels: one, and a zero, per channel of a block of rows.
//
// Decides codes and scales of a block; where they lie is kernels/packed_rows.h. Rows are codes
// alone, the scales are shared. Immutable, safe in any thread.
#pragma once

#include "format/row_codec.h"
#include "kernels/packed_rows.h"

namespace kvasir {

class ChannelCodec final : public RowCodec {
 public:
  /// Requires: !packing.has_groups(), block_rows a power of two up to kMaxBlockRows.
  ChannelCodec(const Packing& packing, int32_t block_rows)
      : packing_(packing), block_rows_(block_rows) {}

  int32_t block_rows() const override { return block_rows_; }
  size_t row_bytes(int32_t head_dim) const override { return packing_.row_bytes(head_dim); }
  size_t shared_bytes(int32_t head_dim) const override {
    return static_cast<size_t>(head_dim) * (packing_.has_zero() ? 4 : 2);
  }
  void encode(int32_t head_dim, const float* rows, ptrdiff_t row_stride, std::byte* codes,
              std::byte* shared) const override;
  const Packing* packing() const override { return &packing_; }
  void decode(int32_t head_dim, const std::byte* codes, int32_t n_rows, const std::byte* shared,
              float* out) const override;

 private:
  Packing packing_;
  int32_t block_rows_;
};

}  // namespace kvasir
