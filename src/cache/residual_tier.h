// The rows of one stream and layer as DeltaKV keeps them: every s-th token whole, the others as
// differences from the mean of the k whole ones most like them (arXiv 2602.08005, training-free).
//
// Life of a token: f16 while it is among the newest; then, kBlockRows at a time, part of a block.
// Of a block the tokens 0, s, 2 s, ... become references, as the sink tokens are; each of the
// others chooses references at or before itself. References are never chosen anew, and one that is
// used stays when its token leaves. Keys lie without their rotation and are rotated at their own
// position when they are read. What bytes hold is format/residual_codec.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/cold_tier.h"
#include "cache/page_arena.h"
#include "cache/reference_pool.h"
#include "cache/rope_table.h"
#include "cache/row_codecs.h"
#include "format/residual_codec.h"
#include "kernels/kernels.h"

namespace kvasir {

class ResidualTier final : public ColdTier {
 public:
  /// Tokens of a block: the paper's R. The f16 tier holds the newest W .. W + 127.
  static constexpr int32_t kBlockRows = kTogetherBlock;

  ResidualTier(const LayerGeometry& geometry, const ResidualParams& params,
               const KvKernels& kernels, PageArena& arena);
  ~ResidualTier() override;

  void set_rope(RopeTable* rope) override { rope_ = rope; }

  int32_t n_rows() const override { return n_rows_; }
  int32_t unit() const override { return kBlockRows; }
  bool turned() const override { return false; }
  bool append(const DemotedRows& demoted, ParallelFor& parallel, EncodeScratch& scratch) override;
  void read_k(int32_t head, int32_t first, int32_t n, const int32_t* positions,
              float* out) const override;
  void read_v(int32_t head, int32_t first, int32_t n, float* out) const override;
  void fetch(int32_t head, std::span<const int32_t> slots) const override;
  void keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) override;
  void clear() override;
  bool copy_from(const ColdTier& other) override;
  size_t bytes() const override;
  void trim() override;
  void describe(LayerShape& shape) const override;
  void describe(LayerLoad& load) const override;

  /// The most that EncodeScratch takes for this where a layer holds n_rows tokens.
  static int64_t scratch_bytes(const LayerGeometry& geometry, const ResidualParams& params,
                               int64_t n_rows, int32_t n_workers);

  // --- For tests and statistics ---

  const ResidualCodec& codec() const { return codec_; }
  /// Slots whose rows are references, as indices into the references; -1: a difference.
  int32_t reference_of(int32_t slot) const;
  /// The references of one set that slot was stored against, [0, k); none if it is one itself.
  std::span<const int32_t> fathers(int32_t slot, std::span<int32_t> room, int32_t set = 0) const;
  /// A reference as it is read, [codec().width()], keys not rotated.
  void read_reference(int32_t index, float* x) const {
    codec_.decode_reference(refs_.at(index), x);
  }
  int32_t n_references() const { return refs_.size() - refs_.n_free(); }
  size_t reference_bytes() const { return refs_.bytes(); }

 private:
  static constexpr int32_t kGroup = 64;  // slots whose places are counted together
  // Slots [64 g, 64 g + 64): which of them are references, and what comes before them.
  struct Group {
    uint64_t references;
    int32_t first_difference;
    int32_t first_reference;
  };
  struct Place {
    bool is_reference;
    int32_t index;  // of the reference in the pool, or of the difference
  };
  // Rows [first, first + n) of what is appended, as they are worked on.
  struct Chunk {
    int32_t first, n;
    int32_t n_old;  // candidates from before the block
  };

  Place place(int32_t slot) const;
  std::byte* difference(int32_t index) const;
  int32_t father(int32_t difference, int32_t i) const;
  void set_father(int32_t difference, int32_t i, int32_t index);
  void widen();
  bool reserve(const DemotedRows& demoted);
  void push_place(bool is_reference, int32_t reference);
  void load_rows(const DemotedRows& demoted, const Chunk& chunk, ParallelFor& parallel,
                 EncodeScratch& scratch) const;
  void add_sinks(const DemotedRows& demoted, EncodeScratch& scratch);
  void add_references(const Chunk& chunk, EncodeScratch& scratch);
  void choose(const Chunk& chunk, ParallelFor& parallel, EncodeScratch& scratch);
  void find_nearest(const Chunk& chunk, int32_t set, ParallelFor& parallel, EncodeScratch& scratch);
  void decode_set(int32_t reference, int32_t set, float* x) const;
  void mean_of(const int32_t* chosen, int32_t set, std::span<float> mean,
               std::span<float> reference) const;
  void encode_rows(const Chunk& chunk, ParallelFor& parallel, EncodeScratch& scratch);
  int32_t n_visible(const Chunk& chunk, int32_t row) const;
  void forget(int32_t slot);
  void read_part(int32_t slot, int32_t head, bool is_k, float* row) const;
  void release_from(size_t first_page);
  void renumber(std::span<const int32_t> moved);

  ResidualCodec codec_;
  const KvKernels* kernels_;
  PageArena* arena_;
  RopeTable* rope_ = nullptr;
  size_t row_bytes_;   // of a difference and the low halves of its fathers
  int32_t page_rows_;  // differences of an allocation
  size_t page_bytes_;
  int32_t n_rows_ = 0;
  int32_t n_differences_ = 0;
  ReferencePool refs_;
  std::vector<Group> groups_;
  std::vector<int32_t> own_;       // [references among the slots] their index in the pool
  std::vector<std::byte*> pages_;  // of differences
  std::vector<uint8_t> high_;      // [n_differences, n_fathers] high bytes of fathers, where needed
  std::vector<Group> old_groups_;  // scratch of keep
};

}  // namespace kvasir
