// The rows of one stream and layer that left the f16 tier: what every compressed store of rows can.
//
// Slots are dense and ascend by position; 0 is the first row that was taken. A row is where a slot
// lies: the same number, unless rows_of() says otherwise. Rows are taken in whole units, encoded
// once and never again. CodedTier holds each row by itself (format/), the residual tier as a
// difference from similar rows. Not thread-safe for writing; reading may happen on several threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "cache/f16_tier.h"
#include "cache/memory_cap.h"
#include "cache/rope_table.h"
#include "kernels/coded_page.h"

namespace kvasir {

/// Scratch of ColdTier::append; one serves all layers.
struct EncodeScratch {
  std::vector<float> rows;       // a block of all heads
  std::vector<uint16_t> row;     // a row of all heads
  std::vector<std::byte> codes;  // a block of one head
  // Of the residual tier.
  std::vector<float> x, scaled;  // [chunk, width]: rows, and what they are compared by
  std::vector<float> tile, norms;
  std::vector<float> best, means;
  std::vector<int32_t> best_index, candidates, chosen, visible;

  size_t bytes() const {
    return (rows.capacity() + x.capacity() + scaled.capacity() + tile.capacity() +
            norms.capacity() + best.capacity() + means.capacity()) *
               sizeof(float) +
           row.capacity() * sizeof(uint16_t) + codes.capacity() +
           (best_index.capacity() + candidates.capacity() + chosen.capacity() +
            visible.capacity()) *
               sizeof(int32_t);
  }
};

/// Rows that a tier takes: [first, first + n) of `rows`.
struct DemotedRows {
  const F16Tier& rows;
  int32_t first, n;
  std::span<const int32_t> positions;  ///< [n] of these rows
  /// Positions of the sink tokens, which are rows [0, size) of `rows` and stay there.
  std::span<const int32_t> sinks;
};

/// One row of all heads as f32, [K of all heads | V of all heads], keys without their rotation.
/// @param rope  null: keys are not rotated
void load_unrotated(const F16Tier& rows, int32_t row, int32_t position, const RopeTable* rope,
                    float* x);

class ColdTier {
 public:
  ColdTier() = default;
  virtual ~ColdTier() = default;
  ColdTier(const ColdTier&) = delete;
  ColdTier& operator=(const ColdTier&) = delete;

  virtual int32_t n_rows() const = 0;
  /// Rows that are taken at once.
  virtual int32_t unit() const = 0;
  /// True if read_k gives keys that turn_row() has turned.
  virtual bool turned() const = 0;

  /// How keys are rotated; null: not at all. Tiers that hold keys without their rotation read it.
  /// Requires: no rows. The table outlives this.
  virtual void set_rope(RopeTable* /*rope*/) {}

  /// True if append() spreads its work over all workers; else layers may append at once.
  virtual bool encodes_together() const { return true; }

  /// Takes rows behind its own. False when memory is out; nothing is changed then.
  /// Requires: demoted.n is a multiple of unit().
  [[nodiscard]] virtual bool append(const DemotedRows& demoted, ParallelFor& parallel,
                                    EncodeScratch& scratch) = 0;

  /// Which row each slot is, [n_rows()]; empty: slot i is row i.
  virtual std::span<const int32_t> rows_of() const { return {}; }

  /// Decodes K (V) of one head, rows [first, first + n), to out [n, head_dim].
  /// @param positions  [n] of these rows; of tiers whose slots are rows
  virtual void read_k(int32_t head, int32_t first, int32_t n, const int32_t* positions,
                      float* out) const = 0;
  virtual void read_v(int32_t head, int32_t first, int32_t n, float* out) const = 0;

  /// A hint: rows `slots` of one head are read next. Fetches what they lie in.
  virtual void fetch(int32_t /*head*/, std::span<const int32_t> /*slots*/) const {}

  /// True if kernels can read the codes of K and V themselves (kernels.h, attends_coded).
  virtual bool attends_coded() const { return false; }
  /// Where the codes of one head's rows [first, first + n) lie, which are in one page of kernels.
  /// False if they are of more than kMostRuns blocks. Requires: attends_coded().
  [[nodiscard]] virtual bool find_page(int32_t /*head*/, int32_t /*first*/, int32_t /*n*/,
                                       CodedPage& /*page*/) const {
    return false;
  }

  /// Compaction: slot survivors[i] - offset moves to slot first + i, ascending and >= first.
  virtual void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) = 0;
  virtual void clear() = 0;
  /// Makes this a copy of `other`, which was made alike. False when memory is out.
  [[nodiscard]] virtual bool copy_from(const ColdTier& other) = 0;

  /// Allocated bytes.
  virtual size_t bytes() const = 0;
  /// Gives back what is allocated for nothing.
  virtual void trim() = 0;
  /// Says what the tier costs, and what it holds.
  virtual void describe(LayerShape& shape) const = 0;
  virtual void describe(LayerLoad& load) const = 0;
};

}  // namespace kvasir
