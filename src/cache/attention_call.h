// What the parts of attention share: how one call is cut, and how a page's arguments are made.
//
// Inside src/cache/ only; attention.h is what others see.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "cache/attention.h"

namespace kvasir::attention {

inline size_t z(int64_t n) { return static_cast<size_t>(n); }

inline constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
inline constexpr int32_t kMaxRows = 64;  // query rows of one kernel call

// How a call is cut: units (stream, KV head, block of queries), each in n_splits ranges of pages.
struct Plan {
  int32_t n_kv_heads, head_dim_k, head_dim_v;
  int32_t q_per_kv;  // query heads of a KV head
  int32_t block;     // queries of a unit
  int32_t n_blocks;
  int32_t n_rows;  // block * q_per_kv
  int32_t n_splits;
  int64_t n_units;
  int32_t n_places;  // row length of scores
};

// One call's immutable context, shared by all items.
struct Call {
  const AttendArgs& args;
  std::span<const StreamRows> streams;
  const KvKernels& kernels;
  const Plan& plan;
  AttentionWorkspace& workspace;
  bool bf16;  // products of 8 significant bits
};

struct Unit {
  int32_t stream, head, first_query, n_queries;
};

inline PageArgs page_args(const Call& call, const PageRows& rows) {
  PageArgs a{};
  a.k = rows.k;
  a.v = rows.v;
  a.head_dim_k = call.plan.head_dim_k;
  a.head_dim_v = call.plan.head_dim_v;
  a.scale = call.args.scale;
  a.soft_cap = call.args.soft_cap;
  return a;
}

// Visible rows [begin, end) of a unit in a page, and their masks; empty if the page is hidden.
struct RowRange {
  int32_t begin, end;
  bool any_mask;
};

// True if the format of demoted rows leaves keys turned.
inline bool turns(const LayerCache& rows) {
  return rows.cold() != nullptr && rows.cold()->turned();
}

inline SoftmaxState state_at(const SoftmaxState& state, int32_t row) {
  return {state.m + row, state.s + row, state.acc + ptrdiff_t{row} * state.acc_stride,
          state.acc_stride};
}

// --- Page by page (attention_pages.cc) ---

// Makes the queries of a unit, whose pointers are in worker.q, ready for its compressed pages.
void ready_queries(const Call& call, const Unit& unit, AttentionWorkspace::Worker& worker);

// Folds pages [first_page, last_page) into the state of a unit.
void attend_pages(const Call& call, const Unit& unit, int32_t first_page, int32_t last_page,
                  AttentionWorkspace::Worker& worker, const SoftmaxState& state);

// --- Attention mass (attention_mass.cc) ---

// Sums the mass of every stream that asks for it. Requires: all scores, final_m and final_s.
void collect_mass(const Call& call, ParallelFor& parallel);

// --- Positions that are slots (attention_turns.cc) ---

// Finds the runs of places of a stream with the same number of evicted tokens behind them; none
// where queries are read as they are.
void find_runs(const AttendArgs& args, const StreamRows& stream, int32_t stream_index,
               std::vector<TurnRun>& runs);

// One page whose slots read the query turned, run by run.
void attend_turned_page(const Call& call, const Unit& unit, int32_t page, const PageRows& rows,
                        const RowRange& range, AttentionWorkspace::Worker& worker,
                        const SoftmaxState& state, bool with_scores);

}  // namespace kvasir::attention
