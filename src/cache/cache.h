// The cache of one KV buffer: streams x layers, where policy, format and attention meet.
//
// append_k/append_v store the rows of a ubatch, attend reads them, end_step asks the policy what
// leaves. The cache knows no ggml and no model: layers are numbers, positions come with the rows,
// visibility comes as a mask over cells. Rows are memory, cells are only addresses: a cell that no
// row stands for costs nothing.
// Thread safety: one caller at a time; attend and end_step spread their work through the
// ParallelFor they are given.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "cache/attention.h"
#include "cache/cache_times.h"
#include "cache/format_spec.h"
#include "cache/layer_cache.h"
#include "cache/mask_view.h"
#include "cache/memory_cap.h"
#include "cache/options.h"
#include "cache/rope.h"
#include "cache/rope_table.h"
#include "cache/selection.h"
#include "cache/step_record.h"
#include "cache/step_scratch.h"
#include "policy/policy.h"

namespace kvasir {

struct CacheConfig {
  int32_t n_streams = 1;
  int32_t n_cells = 0;  ///< cells of one stream
  bool dense = false;   ///< sliding-window layers: nothing is evicted whatever the policy
  CacheOptions options;
};

/// Bytes that a cache (or one stream of it) holds. All are allocated bytes.
struct CacheBytes {
  int64_t rows = 0;       ///< pages of K and V, all tiers
  int64_t demoted = 0;    ///< those of them in a compressed format
  int64_t metadata = 0;   ///< cells, positions, ranker state, observed queries, restored rows
  int64_t workspace = 0;  ///< scratch of attention; shared by all streams
  int64_t total() const { return rows + metadata + workspace; }
};

class Cache {
 public:
  /// Fails where make_policy, make_selector or parse_format fails.
  static Result<std::unique_ptr<Cache>> create(const CacheConfig& config, const KvKernels& kernels);

  const CacheConfig& config() const { return config_; }
  const Policy& policy() const { return policy_; }
  /// True if tokens may leave this cache.
  bool evicts() const { return policy_.evicts() && !config_.dense; }
  /// True if rows may move: tokens leave, or are demoted. They are kept by arrival then.
  bool moves_rows() const { return config_.options.moves_rows() && !config_.dense; }
  /// True if tokens count by place in the cache: --kv-positions cache, or the policy's default.
  bool positions_in_cache() const;

  /// Says how rows of `layer` are cut into heads; needed before its first append. Repeating is
  /// free. Rows that are there already are cut anew (by cell). Fails if their width differs, if
  /// tokens may leave, or when memory is out.
  Result<void> set_geometry(int32_t layer, const LayerGeometry& geometry);

  /// Says how `layer` rotates its rows; rope_reader() reads it.
  void set_rope(int32_t layer, const RopeSpec& spec);
  bool knows_rope(int32_t layer) const { return layers_.at(layer).knows_rope; }
  /// What a residual tier of `layer` was told; null before set_rope or in another format.
  const RopeSpec* rope_spec(int32_t layer) const;
  /// The flag for which set_rope is needed, as people gave it; empty if it is not.
  std::string rope_reader() const;

  /// Stores rows of tokens of one stream. First K, then V of the same tokens.
  /// Requires: 0 <= stream < n_streams, cells in [0, n_cells), positions ascend.
  Result<void> append_k(int32_t layer, int32_t stream, const TokenSpan& tokens,
                        const RowsView& rows);
  Result<void> append_v(int32_t layer, int32_t stream, const TokenSpan& tokens,
                        const RowsView& rows);

  /// Attention of every query of args over the live rows of its stream.
  Result<void> attend(const AttendArgs& args, ParallelFor& parallel);

  /// Ends a step of one stream: folds attention mass into the ranker's state, asks the budget,
  /// drops what is over. Adds what it did to `record` (live, bytes, budget, evicted).
  /// Of `step` it reads decoded and confidence, and fills in the rest.
  void end_step(int32_t stream, const StepState& step, ParallelFor& parallel, StepRecord& record);

  /// Drops the live tokens of a stream at positions [first, last) from every layer, as a policy
  /// would. For experiments. Requires: evicts().
  void drop(int32_t stream, int32_t first, int32_t last);

  /// Forgets a stream, or everything.
  void clear_stream(int32_t stream);
  /// Forgets a stream of which rows were asked for that are not here; its attention fails until it
  /// begins anew, at position 0.
  void lose_stream(int32_t stream);
  void clear();

  /// Makes one layer of stream `to` a copy of that of stream `from`. Fails when memory is out.
  Result<void> copy_layer(int32_t layer, int32_t from, int32_t to);

  /// Takes a row of a saved stream, [n_kv_heads, head_dim] f16, or null for one that had been
  /// evicted: for each layer the K rows by ascending cell, then the V rows. The first forgets what
  /// the stream held. Fails when memory is out. Requires: moves_rows().
  Result<void> restore_row(int32_t layer, int32_t stream, int32_t cell, bool is_k,
                           const uint16_t* row);

  // --- Under a cap (room.h asks, cache_cap.cc answers) ---

  /// Query heads of a layer, so that observed queries count before the first attention.
  void set_query_heads(int32_t layer, int32_t n_heads);
  /// What the cache costs and holds, for a ubatch of n_new[stream] tokens on n_workers threads.
  /// Valid until something changes.
  CacheLoad load(std::span<const int32_t> n_new, int32_t n_workers) const;
  /// Evicts by the policy's ranker until each layer holds at most keep[layer] tokens of the stream
  /// (sinks and protected tokens stay), demotes what can be, and gives back what is allocated for
  /// nothing. Requires: evicts(), no step of the stream is under way.
  void cut(int32_t stream, std::span<const int32_t> keep, ParallelFor& parallel);
  /// Drops tokens of a stream at or past a position that arrives again: the server removed them.
  void drop_from(int32_t stream, int32_t position);
  /// Gives back the workspace. Requires: no step is under way.
  void give_back_workspace();
  /// Tokens per layer that the budget of a stream may count on; INT32_MAX at first.
  void set_allowance(int32_t stream, int32_t tokens) { allowances_.at(size_t(stream)) = tokens; }
  int32_t allowance(int32_t stream) const { return allowances_.at(size_t(stream)); }

  /// The layer of a stream; null if it holds nothing yet.
  LayerCache* find(int32_t layer, int32_t stream);
  const LayerCache* find(int32_t layer, int32_t stream) const;
  /// The same, made where it is missing. Requires: set_geometry(layer).
  LayerCache& layer_cache(int32_t layer, int32_t stream);

  int64_t n_layers() const { return static_cast<int64_t>(layers_.size()); }
  CacheBytes bytes(int32_t stream) const;  ///< rows and metadata of one stream; workspace 0
  CacheBytes bytes() const;
  int64_t peak_bytes() const { return peak_bytes_; }
  /// Live tokens of one stream, mean over the layers.
  double live_tokens(int32_t stream) const;
  int64_t evicted_rows(int32_t stream) const;
  /// Rows that decode steps read so far, and that were live then, layers added up; 0 where every
  /// step reads all.
  int64_t rows_read() const { return selection_ == nullptr ? 0 : selection_->rows_read(); }
  int64_t rows_live() const { return selection_ == nullptr ? 0 : selection_->rows_live(); }
  /// Demoted rows that those steps chose where restored ones are kept (--kv-restored), and how many
  /// of them were.
  int64_t rows_restored() const { return selection_ == nullptr ? 0 : selection_->rows_restored(); }
  int64_t rows_found() const { return selection_ == nullptr ? 0 : selection_->rows_found(); }
  /// Positions of the live tokens of one layer of a stream, ascending; empty if it holds nothing.
  std::vector<int32_t> live_positions(int32_t stream, int32_t layer) const;
  /// The layers' numbers, ascending.
  std::vector<int32_t> layer_ids() const;
  const CacheTimes& times() const { return times_; }

 private:
  // What a layer of a stream has been shown since its ranker was last told.
  struct Seen {
    StepMass mass;
    bool prompt = false;  // something of a prompt
    bool chunk = false;   // several queries, whose columns are summed
    int32_t n_steps = 0;  // decode steps since the last observed window
    int64_t evicted = 0;  // rows dropped so far
  };
  struct Layer {
    LayerGeometry geometry;
    int32_t n_heads = 0;  // query heads, where they are known
    bool knows_rope = false;
    Rotator* rotator = nullptr;  // of rotators_; null unless --kv-positions cache
    RopeTable* rope = nullptr;   // of rope_tables_; null unless keys lie unrotated
    AttentionShape shape;        // of the last attend, for observed queries
    std::vector<std::unique_ptr<LayerCache>> streams;
    std::vector<Seen> seen;  // [n_streams], by arrival only
  };

  // A layer of the stream whose step ends.
  struct EndingLayer {
    LayerCache* rows = nullptr;
    Layer* layer = nullptr;
    Seen* seen = nullptr;
    int32_t index = 0;
    int32_t budget = 0;
    bool observed = false;
    int64_t evicted = 0;
  };

  Cache(const CacheConfig& config, Policy policy, const FormatSpec& formats,
        const KvKernels& kernels);
  Result<void> append(int32_t layer, int32_t stream, const TokenSpan& tokens, const RowsView& rows,
                      bool is_k);
  Result<void> check_visible(int32_t stream, const LayerCache& layer, int64_t evicted,
                             const CellMask& mask) const;
  Result<void> view_streams(const AttendArgs& args, Layer& layer, ParallelFor& parallel);
  Result<void> view_stream(const AttendArgs& args, int32_t i, Layer& layer, ParallelFor& parallel,
                           StepScratch& scratch, StreamRows& view);
  void note_shape(Layer& layer, const AttendArgs& args) const;
  void note_arrival(LayerCache& rows, const RowsView& view, bool is_k);
  void note_queries(Layer& layer, LayerCache& rows, int32_t index, const AttendArgs& args);
  void sum_columns(Layer& layer, LayerCache& rows, const MassQueries& queries,
                   ParallelFor& parallel);
  void end_chunk(Layer& layer, LayerCache& rows, int32_t stream, ParallelFor& parallel);
  bool observes_window(const Seen& seen) const;
  void observe(const EndingLayer& ending, int64_t step, ParallelFor& parallel, CacheTimes& times);
  void look_after(EndingLayer& ending, const StepState& step, StepScratch& scratch);
  int64_t evict(LayerCache& rows, const StepState& step, const LayerState& layer, int32_t budget,
                StepScratch& scratch);
  std::span<const int32_t> rank(const LayerCache& rows, Candidates candidates, int32_t n_evict,
                                StepScratch& scratch);
  void demote(LayerCache& rows, ParallelFor& parallel, StepScratch& scratch);
  void list_layers(int32_t stream);
  void record_step(bool may_evict, StepRecord& record) const;
  void reserve_scratch(int32_t n_workers);
  void take_times(std::optional<int64_t> passed = std::nullopt);
  void note_peak();
  bool keeps_mass() const { return needs_.step_mass || needs_.observed_queries > 0; }
  RowCodecs codecs_of(int32_t layer) const;
  bool needs_order() const;
  std::unique_ptr<KeyIndex> make_index(int32_t layer) const;
  std::unique_ptr<ColdTier> make_cold(int32_t layer, PageArena& arena) const;
  int32_t index_of(int32_t layer) const;
  int32_t n_kept_queries() const;
  LayerShape shape_of(int32_t layer, const Layer& of) const;
  int64_t rope_table_bound(std::span<const int32_t> n_new) const;
  int64_t encode_bound(int64_t slots, int32_t n_workers) const;
  int64_t workspace_bytes() const;
  int64_t shared_bytes() const;
  int64_t workspace_bound(std::span<const int32_t> n_new, int32_t n_workers,
                          int64_t most_slots) const;

  CacheConfig config_;
  Policy policy_;
  FormatSpec formats_;
  Needs needs_;
  const KvKernels* kernels_;
  PageArena arena_;
  std::map<int32_t, Layer> layers_;
  std::vector<std::unique_ptr<Rotator>> rotators_;       // one for each way of rotating
  std::vector<std::unique_ptr<RopeTable>> rope_tables_;  // the same
  std::vector<int64_t> n_steps_;                         // [n_streams] that asked for a budget
  std::vector<int32_t> allowances_;                      // [n_streams] see set_allowance
  std::vector<int64_t> cut_rows_;                        // [n_streams] dropped since a step ended
  std::vector<bool> lost_;                               // [n_streams] see lose_stream
  std::vector<bool> restoring_;  // [n_streams] rows of a saved stream arrive
  // [n_streams] each. Where slots are cells one view serves all layers of a step; else the view is
  // made anew for the layer at hand.
  std::vector<MaskView> cell_masks_, slot_masks_;
  AttentionWorkspace workspace_;
  std::unique_ptr<Selection> selection_;  // null: every step reads all
  int64_t peak_bytes_ = 0;
  CacheTimes times_;
  // [n_streams]: bytes() of each when note_peak() last looked, and whether it changed since.
  std::vector<int64_t> stream_bytes_;
  std::vector<uint8_t> stream_changed_;
  std::vector<StepScratch> scratch_;  // [n_workers], at least one
  std::vector<EndingLayer> ending_;   // scratch of end_step
  std::vector<Result<void>> viewed_;  // scratch of attend
};

}  // namespace kvasir
