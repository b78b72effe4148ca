// The rows of one stream and layer as coordinates along a few axes: a low rank of K and of V.
//
// The axes are those along which the first rows that the tier takes vary most, for K (without
// rotation, all heads together) and for V apart; they never change, and every row is stored as its
// coordinates in binary16. A control for the residual tier: what one gets where all tokens share
// one model of what they have in common (as Palu, arXiv 2407.21118), not each its own neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/cold_tier.h"
#include "cache/page_arena.h"
#include "format/principal_axes.h"
#include "kernels/kernels.h"

namespace kvasir {

class LatentTier final : public ColdTier {
 public:
  /// @param rank_percent  axes that are kept, percent of the channels of K and of V
  LatentTier(const LayerGeometry& geometry, int32_t rank_percent, const KvKernels& kernels,
             PageArena& arena);
  ~LatentTier() override;

  void set_rope(RopeTable* rope) override { rope_ = rope; }
  int32_t n_rows() const override { return n_rows_; }
  int32_t unit() const override;
  bool turned() const override { return false; }
  bool append(const DemotedRows& demoted, ParallelFor& parallel, EncodeScratch& scratch) override;
  void read_k(int32_t head, int32_t first, int32_t n, const int32_t* positions,
              float* out) const override;
  void read_v(int32_t head, int32_t first, int32_t n, float* out) const override;
  void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) override;
  void clear() override;
  bool copy_from(const ColdTier& other) override;
  size_t bytes() const override;
  void trim() override { pages_.shrink_to_fit(); }
  void describe(LayerShape& shape) const override;
  void describe(LayerLoad& load) const override;
  /// The most that EncodeScratch and finding the axes take where a layer holds n_rows tokens.
  static int64_t scratch_bytes(const LayerGeometry& geometry, int64_t n_rows, int32_t n_workers);

 private:
  struct Side {
    int32_t width, rank;
    size_t at;  // of its coordinates in a row
    PrincipalAxes axes;
  };
  int64_t axes_bytes() const;
  void find_axes(const DemotedRows& demoted, EncodeScratch& scratch);
  void encode(const Side& side, const float* x, std::byte* row) const;
  void read(const Side& side, int32_t head, int32_t head_dim, int32_t slot, float* out) const;
  std::byte* row(int32_t slot) const;
  bool reserve(int32_t n_rows);
  size_t page_bytes() const { return row_bytes_ * static_cast<size_t>(page_rows_); }

  LayerGeometry geometry_;
  const KvKernels* kernels_;
  PageArena* arena_;
  RopeTable* rope_ = nullptr;
  Side k_, v_;
  size_t row_bytes_;
  int32_t page_rows_;
  int32_t n_rows_ = 0;
  std::vector<std::byte*> pages_;
};

}  // namespace kvasir
