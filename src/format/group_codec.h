// Formats whose rows carry their own scales: one, and a zero, per group of channels.
//
// Decides codes and scales of a row; where they lie is kernels/packed_rows.h. Nothing is shared, so
// every row is a block of its own. Immutable, safe in any thread.
#pragma once

#include "format/row_codec.h"
#include "kernels/packed_rows.h"

namespace kvasir {

class GroupCodec final : public RowCodec {
 public:
  /// Requires: packing.has_groups(), no mean.
  explicit GroupCodec(const Packing& packing) : packing_(packing) {}

  int32_t block_rows() const override { return 1; }
  size_t row_bytes(int32_t head_dim) const override { return packing_.row_bytes(head_dim); }
  size_t shared_bytes(int32_t /*head_dim*/) const override { return 0; }
  void encode(int32_t head_dim, const float* rows, ptrdiff_t row_stride, std::byte* codes,
              std::byte* shared) const override;
  const Packing* packing() const override { return &packing_; }
  void decode(int32_t head_dim, const std::byte* codes, int32_t n_rows, const std::byte* shared,
              float* out) const override;

 private:
  Packing packing_;
};

/// Encodes one row of admitted values, [head_dim], into packing.row_bytes(head_dim) bytes.
void encode_groups(const Packing& packing, int32_t head_dim, const float* row, std::byte* codes);

}  // namespace kvasir
