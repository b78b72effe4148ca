// A compressed format of rows: which bytes hold K or V of one KV head.
//
// A codec turns f32 rows of one KV head into codes and back. Rows that are encoded together (a
// block) may share bytes, for instance a scale per channel; a block never gains a row later and is
// never encoded again: when rows leave, the codes of the others move with what belongs to them
// alone, and the shared bytes live until the last row of the block has left. A new format is one
// file in this folder and one line in registry.cc.
// Thread safety: codecs are immutable; all methods are const and may run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/packed_rows.h"

namespace kvasir {

inline constexpr int32_t kMaxBlockRows = 128;

class RowCodec {
 public:
  virtual ~RowCodec() = default;

  /// Rows of a block: a power of two, 1 to kMaxBlockRows.
  virtual int32_t block_rows() const = 0;

  /// Bytes of one row that are its own: codes and what only they need. Any head_dim from 1 to
  /// kMaxHeadDim, here and below.
  virtual size_t row_bytes(int32_t head_dim) const = 0;

  /// Bytes that the rows of a block share; 0 where each row stands for itself.
  virtual size_t shared_bytes(int32_t head_dim) const = 0;

  /// Encodes one block. Row r is at rows + r * row_stride, [head_dim] f32; its codes go to
  /// codes + r * row_bytes(head_dim). Infinite values are clamped to the largest binary16, NaN
  /// counts as 0.
  /// @param shared  [shared_bytes(head_dim)], null where that is 0
  virtual void encode(int32_t head_dim, const float* rows, ptrdiff_t row_stride, std::byte* codes,
                      std::byte* shared) const = 0;

  /// Decodes n_rows rows of one block: row r is at codes + r * row_bytes(head_dim) and goes to
  /// out + r * head_dim, f32. Any n_rows from 1 on.
  virtual void decode(int32_t head_dim, const std::byte* codes, int32_t n_rows,
                      const std::byte* shared, float* out) const = 0;

  /// True if decode() gives rows that turn_row() has turned: their dot product with a query is
  /// right if the query is turned alike. Saves turning every row back at every read.
  virtual bool turned() const { return false; }

  /// How rows are packed, for kernels that read codes; null: decode() alone reads them.
  virtual const Packing* packing() const { return nullptr; }
};

/// Applies the orthogonal transform of turned rows in place: a Walsh-Hadamard transform of each
/// power-of-two part of [0, head_dim), largest first, scaled to keep lengths. It is its own
/// inverse.
void turn_row(float* row, int32_t head_dim);

/// A format as flags name it. `f16` has no codecs: rows are stored as they are.
struct RowFormat {
  std::string_view name;
  std::string_view text;        ///< what it is, one line for --help and docs
  const RowCodec* k = nullptr;  ///< null: f16
  const RowCodec* v = nullptr;  ///< null: f16
};

/// All registered formats, f16 first. They live for ever.
const std::vector<RowFormat>& row_formats();

/// The format registered as `name`, or null.
const RowFormat* find_format(std::string_view name);

/// Bytes of one token of a KV head in one format side, shared bytes spread over their block; null
/// codec: f16. The one definition of a row's size.
double bytes_per_row(const RowCodec* codec, int32_t head_dim);

}  // namespace kvasir
