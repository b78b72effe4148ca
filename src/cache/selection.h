// Which stored rows each layer of a decode step reads: a Selector (src/select/) at work on the
// layers and streams of one cache.
//
// The choice of a step lives here, one ReadSet a stream: layers that observe write it when they
// have attended, those behind them read it in the same step; layers that choose for themselves
// write it before they attend. Calls of more than one query, as prompts are, read everything.
// An index of keys lies with the layer it is of. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "cache/attention.h"
#include "cache/read_plan.h"
#include "select/selector.h"

namespace kvasir {

class Selection {
 public:
  /// What of a stream is never a candidate.
  struct Always {
    int32_t sinks;   ///< first tokens
    int32_t recent;  ///< newest tokens, where rows are not demoted; else all that are not
  };

  Selection(std::unique_ptr<Selector> selector, int32_t n_streams, const Always& always,
            const KvKernels& kernels);

  /// A call on layer `index` of n_layers begins. Fails for what cannot be done right.
  Result<void> begin(const AttendArgs& args, const LayerGeometry& geometry, int32_t index,
                     int32_t n_layers);
  /// Stream `i` of the call, which is `stream`: what is read of `rows` where that is not all, with
  /// its mask; view keeps its scores where they are asked for. True if view has a plan.
  bool narrow(const AttendArgs& args, int32_t i, const CellMask& mask, LayerCache& rows,
              ParallelFor& parallel, StreamRows& view);
  /// The call has attended: where it observed, its scores choose.
  void finish(const AttendArgs& args, std::span<const StreamRows> streams,
              const AttentionWorkspace& workspace, ParallelFor& parallel);

  void forget(int32_t stream) { sets_[static_cast<size_t>(stream)].epoch = -1; }

  /// Rows that decode steps read so far, and that were live then; layers and streams added up.
  int64_t rows_read() const { return rows_read_; }
  int64_t rows_live() const { return rows_live_; }
  /// Demoted rows that were chosen and are kept once restored, and those of them that were kept.
  int64_t rows_restored() const { return rows_restored_; }
  int64_t rows_found() const { return rows_found_; }
  size_t bytes() const;
  /// The most that bytes() may be with n_streams that decode, none of which holds more than n_slots
  /// tokens of a layer, where layers have up to n_heads query heads of head_dim channels.
  int64_t most_bytes(int64_t n_streams, int64_t n_slots, int32_t n_heads, int32_t head_dim) const;
  /// An empty index for layer `index` of n_layers; null where it keeps none.
  std::unique_ptr<KeyIndex> make_index(int32_t index, int32_t n_layers) const {
    return selector_->role(index, n_layers) == Role::kChoose ? selector_->make_index() : nullptr;
  }
  /// True if the scores of layer `index` of n_layers choose for others.
  bool observes(int32_t index, int32_t n_layers) const {
    return selector_->role(index, n_layers) == Role::kObserve;
  }
  /// Gives back what is allocated. Requires: no step is under way.
  void give_back();

 private:
  struct Range {
    int32_t first, n;  // slots
  };
  Range candidates(const LayerCache& rows) const;
  void choose(const SelectInput& input, const LayerCache& rows, const Range& range, int64_t epoch,
              ReadSet& set, ParallelFor& parallel);
  void update_index(LayerCache& rows, const Range& range, ParallelFor& parallel);
  void settle(const LayerCache& rows, const Range& range, KeyIndex& index);
  void plan_restored(LayerCache& rows, const ReadPlan& plan);
  bool attends_coded(const LayerCache& rows) const;

  std::unique_ptr<Selector> selector_;
  Always always_;
  const KvKernels* kernels_;
  Role role_ = Role::kDense;  // of the call at hand
  int64_t n_choices_ = 0;
  std::vector<ReadSet> sets_;    // [n_streams]
  std::vector<ReadPlan> plans_;  // [n_streams]
  std::vector<MaskView> masks_;  // [n_streams]
  SelectScratch scratch_;
  std::vector<int32_t> chosen_;
  std::vector<float> settling_;  // keys
  int64_t rows_read_ = 0, rows_live_ = 0;
  int64_t rows_restored_ = 0, rows_found_ = 0;
};

/// K of n consecutive rows of one KV head, from row `first` of the f16 tier or of the demoted one,
/// to out [n, head_dim_k]; turned back where the format turns them.
void read_keys(const LayerCache& rows, bool cold, int32_t first, int32_t n, int32_t head,
               float* out);

}  // namespace kvasir
