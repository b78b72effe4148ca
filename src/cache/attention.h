// Attention of a ubatch over live rows: how the work is cut, run and merged.
//
// Each KV head's rows are read once for all query heads that share it. With few queries the context
// is split and partial softmaxes are merged; with many, tiles of queries walk the pages. Arithmetic
// is in the kernels (kernels.h); which rows exist is in LayerCache; who sees them is in MaskView.
// The cut never depends on timing, so results do not depend on which thread ran what.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "cache/layer_cache.h"
#include "cache/mask_view.h"
#include "cache/options.h"
#include "cache/page_rows.h"
#include "cache/read_plan.h"
#include "cache/rope.h"
#include "kernels/kernels.h"
#include "policy/policy.h"

namespace kvasir {

/// What a model fixes about the attention of one layer.
struct AttentionShape {
  int32_t n_heads = 0;       ///< query heads; a multiple of the layer's KV heads
  float scale = 1;           ///< of q.k
  float soft_cap = 0;        ///< 0: none
  float max_bias = 0;        ///< ALiBi; 0: none
  std::vector<float> sinks;  ///< [n_heads] learned sink logits, or empty
};

/// One attention call: n_queries queries for each of n_streams consecutive streams.
struct AttendArgs {
  int32_t layer = 0;
  int32_t first_stream = 0;
  int32_t n_streams = 1;
  int32_t n_queries = 0;  ///< per stream
  int32_t n_heads = 0;
  /// Query t of head h of stream s: q + s * stream + t * query + h * head, [head_dim_k] f32.
  const float* q = nullptr;
  ptrdiff_t q_stream = 0, q_query = 0, q_head = 0;  ///< strides in elements
  /// f16 mask value of query t of stream s at cell c: mask + s * stream + t * query + c; null: all
  /// visible.
  const uint16_t* mask = nullptr;
  ptrdiff_t mask_stream = 0, mask_query = 0;  ///< strides in elements
  int32_t n_cells = 0;                        ///< cells that the mask spans
  float scale = 1, soft_cap = 0, max_bias = 0;
  const float* sinks = nullptr;  ///< [n_heads] or null
  /// Output of query t, head h, stream s: out + s * stream + t * query + h * head, [head_dim_v]
  /// f32.
  float* out = nullptr;
  ptrdiff_t out_stream = 0, out_query = 0, out_head = 0;
  std::span<const int32_t> positions;  ///< [n_streams * n_queries] of the queries
  int64_t epoch = 0;                   ///< a number that is new for each ubatch
};

/// Attention mass of the newest step of one stream and layer.
struct StepMass {
  std::vector<float> mass;    ///< [n_slots] probability, query heads reduced
  std::vector<float> places;  ///< the same in read order; scratch
  bool valid = false;         ///< false: the step had several queries
  HeadReduction heads = HeadReduction::kMean;
};

/// The rows that one stream of a call reads.
struct StreamRows {
  const LayerCache* rows = nullptr;
  const MaskView* mask = nullptr;  ///< in the order of places
  ReadOrder order;
  const ReadPlan* plan = nullptr;  ///< what is read where not all is; the mask is in its order
  StepMass* mass = nullptr;        ///< filled where not null; needs n_queries == 1
  bool keep_scores = false;        ///< leave them in the workspace; needs n_queries == 1
  Rotator* rotator = nullptr;      ///< not null: positions are slots; needs plan == nullptr

  int32_t n_pages() const { return plan != nullptr ? plan->n_pages() : order.n_pages(); }
  PageRef page(int32_t page) const {
    if (plan != nullptr) return plan->page(page);
    return {order.first_in_tier(page), order.slots_in(page), order.is_cold(page)};
  }
};

/// A run of places that read the query with the same rotation.
struct TurnRun {
  int32_t first, end;  ///< places [first, end)
  const float* turn;   ///< null: as it is
};

/// Scratch of attention; grows to what a call needs and then stays.
class AttentionWorkspace {
 public:
  void reserve_workers(int32_t n_workers, int32_t n_rows, int32_t head_dim_k, int32_t head_dim_v);
  size_t bytes() const;

  struct Worker {
    std::vector<float> m, s, acc;      // [n_rows], [n_rows], [n_rows, head_dim_v]
    std::vector<float> turned;         // [head_dim_k]
    std::vector<float> turned_q;       // [n_rows, head_dim_k], for formats that turn keys
    std::vector<const float*> cold_q;  // [n_rows] what compressed pages read: q or turned_q
    PageScratch page;
    CodedQueries coded;  // of the unit at hand
    std::vector<std::byte> coded_memory;
    std::vector<const float*> q;        // [n_rows]
    std::vector<const uint16_t*> mask;  // [n_rows]
    std::vector<float> slope;           // [n_rows]
    std::vector<float*> scores;         // [n_rows]
  };
  std::vector<Worker> workers;
  std::vector<float> partials;             // [n_units, n_splits, n_rows, head_dim_v + 2]
  std::vector<float> scores;               // [n_streams, n_heads, n_places]
  int32_t n_places = 0;                    // of the last call
  std::vector<float> final_m, final_s;     // [n_streams, n_heads]
  std::vector<std::vector<TurnRun>> runs;  // [n_streams]
  std::vector<StreamRows> streams;         // [n_streams]
  std::vector<float> slopes;               // [n_heads]
  std::vector<int32_t> places;             // [n_places] of observed_mass
  std::vector<float> query_m, query_s;     // [n_queries, n_heads], of add_query_mass
};

/// Runs one attention call. streams has args.n_streams entries with rows of one geometry.
void attend_streams(const AttendArgs& args, std::span<const StreamRows> streams,
                    const KvKernels& kernels, ParallelFor& parallel, AttentionWorkspace& workspace,
                    MathMode math = MathMode::kF32);

/// Queries whose attention mass is asked for after the fact (observed_mass.cc).
struct MassQueries {
  /// Query t of head h: q + t * query_stride + h * head_stride, [head_dim_k] f32.
  const float* q = nullptr;
  ptrdiff_t query_stride = 0, head_stride = 0;  ///< elements
  std::span<const int32_t> positions;           ///< [n_queries]
};

/// Adds weight * the attention mass of each query to mass[slot * stride], query by query: the
/// softmax that the query had over the slots at or before its position, its heads reduced. The
/// result depends on the order of queries alone, not on threads nor on how they come in calls.
/// Two passes over K, so that no row of scores is kept. mass: n_slots * stride floats.
void add_query_mass(const LayerCache& rows, const AttentionShape& shape, const MassQueries& queries,
                    HeadReduction heads, float weight, const KvKernels& kernels,
                    ParallelFor& parallel, AttentionWorkspace& workspace, std::span<float> mass,
                    int32_t stride);

/// Attention mass of the queries in a layer's ring over its slots, mean over queries. mass:
/// [n_slots].
void observed_mass(LayerCache& rows, const AttentionShape& shape, HeadReduction heads,
                   const KvKernels& kernels, ParallelFor& parallel, AttentionWorkspace& workspace,
                   std::span<float> mass);

/// ALiBi slopes of all heads (Press et al., arXiv 2108.12409, section 3); all 1 without bias.
void alibi_slopes(float max_bias, std::span<float> slopes);

}  // namespace kvasir
