// One page of one KV head as codes, and queries made ready to be multiplied with codes.
//
// attend_coded (kernels.h) multiplies integers: a query row becomes 16-bit integers with one step,
// the probabilities of a page 16-bit integers with a step for each row and group of channels. Codes
// enter as they are and scales are applied to sums, so nothing is rounded to the format of the
// codes again. Knows no cache. Plain data; what is prepared belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/packed_rows.h"

namespace kvasir {

inline constexpr int32_t kMostRuns = 4;  ///< of rows of one block in a page

/// Rows [end of the run before, end) of a page that share the same bytes.
struct SharedRun {
  int32_t end = 0;
  const std::byte* shared = nullptr;  ///< what the packing's scaling says; null where it is none
};

/// How the rows of a page lie.
enum class RowLayout {
  kRows,       ///< packed, one behind the other
  kKeyTile,    ///< in a tile (row_tiles.h), 64-byte aligned
  kValueTile,  ///< the same for V
};

/// K or V of one page: consecutive rows.
struct CodedSide {
  Packing packing;
  int32_t head_dim = 0;
  /// Packed: row r at rows + r * packing.row_bytes(head_dim). In a tile: the code of the page's
  /// first slot and channel.
  const std::byte* rows = nullptr;
  int32_t n_runs = 0;  ///< 1..kMostRuns; the last one ends at the page's n_slots
  std::array<SharedRun, kMostRuns> runs;
  RowLayout layout = RowLayout::kRows;
  const std::byte* scales = nullptr;  ///< in a tile: of the first slot and group
};

struct CodedPage {
  CodedSide k, v;
  /// Rows of the page that the caller attends next, or null: hints, as PageArgs::next_k.
  const std::byte* next_k = nullptr;
  const std::byte* next_v = nullptr;
};

/// True if attend_coded reads such rows. Not: levels that are no integers (NF4), unsigned V of 8
/// bits, and fewer than 8 bits where head_dim is no multiple of a strip.
bool attends_coded(const Packing& k, int32_t head_dim_k, const Packing& v, int32_t head_dim_v);

/// The query rows of one unit of work and, in memory of the caller, what attend_coded makes of them
/// once for all pages. For another set of rows: other pointers and prepared = false.
struct CodedQueries {
  const float* const* q = nullptr;  ///< [n_rows] pointers to [head_dim_k] f32, not yet scaled
  int32_t n_rows = 0;
  std::byte* memory = nullptr;  ///< coded_query_bytes(n_rows, head_dim_k), 64-byte aligned
  bool eight_bits = false;      ///< of a query, not 16: half of the work of scores
  bool prepared = false;
  const std::byte* shared = nullptr;  ///< shared bytes that were folded in
};

/// Bytes of CodedQueries::memory.
size_t coded_query_bytes(int32_t n_rows, int32_t head_dim_k);

}  // namespace kvasir
