#include "cache/attention.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "cache/attention_call.h"
#include "cache/scratch.h"

namespace kvasir {

using attention::attend_pages;
using attention::Call;
using attention::collect_mass;
using attention::find_runs;
using attention::kMaxRows;
using attention::kMinusInf;
using attention::Plan;
using attention::ready_queries;
using attention::Unit;
using attention::z;

namespace {

constexpr int32_t kMinSplitPages = 2;  // pages that make a split worth its merge
// Items that a call is cut into where the context is long enough. A constant, not the number of
// threads: the cut decides the order of sums, and results must not depend on threads.
constexpr int64_t kTargetItems = 32;
// Units of which there are so many that only long contexts are worth a cut.
constexpr int64_t kManyUnits = 16;
constexpr int32_t kMinSplitPagesOfMany = 16;

Plan make_plan(const AttendArgs& args, std::span<const StreamRows> streams) {
  const LayerGeometry& g = streams[0].rows->rows().geometry();
  Plan plan{};
  plan.n_kv_heads = g.n_kv_heads;
  plan.head_dim_k = g.head_dim_k;
  plan.head_dim_v = g.head_dim_v;
  plan.q_per_kv = args.n_heads / g.n_kv_heads;
  plan.block = std::clamp(kMaxRows / plan.q_per_kv, 1, args.n_queries);
  plan.n_blocks = (args.n_queries + plan.block - 1) / plan.block;
  plan.n_rows = plan.block * plan.q_per_kv;
  plan.n_units = int64_t{args.n_streams} * plan.n_kv_heads * plan.n_blocks;
  int32_t n_pages = 0;
  for (const StreamRows& s : streams) n_pages = std::max(n_pages, s.n_pages());
  plan.n_places = n_pages * kPageSlots;
  const int64_t wanted = (kTargetItems + plan.n_units - 1) / plan.n_units;
  const int32_t least = plan.n_units < kManyUnits ? kMinSplitPages : kMinSplitPagesOfMany;
  plan.n_splits =
      static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, std::max(1, n_pages / least)));
  return plan;
}

Unit unit_of(const Call& call, int64_t index) {
  const int32_t block = static_cast<int32_t>(index % call.plan.n_blocks);
  const int64_t rest = index / call.plan.n_blocks;
  const int32_t first = block * call.plan.block;
  return {static_cast<int32_t>(rest / call.plan.n_kv_heads),
          static_cast<int32_t>(rest % call.plan.n_kv_heads), first,
          std::min(call.plan.block, call.args.n_queries - first)};
}

void fill_queries(const Call& call, const Unit& unit, AttentionWorkspace::Worker& worker) {
  const int32_t g = call.plan.q_per_kv;
  const float* base = call.args.q + unit.stream * call.args.q_stream;
  for (int32_t t = 0; t < unit.n_queries; ++t) {
    for (int32_t j = 0; j < g; ++j) {
      const int32_t head = unit.head * g + j;
      worker.q[z(t * g + j)] =
          base + (unit.first_query + t) * call.args.q_query + head * call.args.q_head;
      worker.slope[z(t * g + j)] = call.workspace.slopes[z(head)];
    }
  }
}

// Joins the learned sink logit once, divides, and writes the rows of a unit.
void finish_unit(const Call& call, const Unit& unit, const SoftmaxState& state) {
  const AttendArgs& args = call.args;
  const int32_t g = call.plan.q_per_kv;
  for (int32_t r = 0; r < unit.n_queries * g; ++r) {
    const int32_t head = unit.head * g + r % g;
    float m = state.m[r];
    float s = state.s[r];
    float rescale = 1;
    if (args.sinks != nullptr) {
      const float joined = std::max(m, args.sinks[head]);
      rescale = m == kMinusInf ? 0.0F : std::exp(m - joined);
      s = s * rescale + std::exp(args.sinks[head] - joined);
      m = joined;
    }
    const float factor = s > 0 ? rescale / s : 0.0F;
    const float* acc = state.acc + ptrdiff_t{r} * state.acc_stride;
    float* out = args.out + unit.stream * args.out_stream +
                 (unit.first_query + r / g) * args.out_query + head * args.out_head;
    for (int32_t d = 0; d < call.plan.head_dim_v; ++d) out[d] = acc[d] * factor;
    if (call.streams[z(unit.stream)].mass != nullptr) {
      call.workspace.final_m[z(unit.stream * args.n_heads + head)] = m;
      call.workspace.final_s[z(unit.stream * args.n_heads + head)] = s;
    }
  }
}

void reset(const SoftmaxState& state, int32_t n_rows) {
  std::fill_n(state.m, n_rows, kMinusInf);
  std::fill_n(state.s, n_rows, 0.0F);
  std::fill_n(state.acc, ptrdiff_t{n_rows} * state.acc_stride, 0.0F);
}

SoftmaxState partial_state(const Call& call, int64_t unit, int32_t split) {
  const auto rows = ptrdiff_t{call.plan.n_rows};
  float* base = call.workspace.partials.data() +
                (unit * call.plan.n_splits + split) * rows * (call.plan.head_dim_v + 2);
  return {base, base + rows, base + 2 * rows, call.plan.head_dim_v};
}

void run_item(const Call& call, int64_t item, int32_t worker_index) {
  AttentionWorkspace::Worker& worker = call.workspace.workers[z(worker_index)];
  const int64_t unit_index = item / call.plan.n_splits;
  const int32_t split = static_cast<int32_t>(item % call.plan.n_splits);
  const Unit unit = unit_of(call, unit_index);
  const bool whole = call.plan.n_splits == 1;
  const SoftmaxState state = whole ? SoftmaxState{worker.m.data(), worker.s.data(),
                                                  worker.acc.data(), call.plan.head_dim_v}
                                   : partial_state(call, unit_index, split);
  reset(state, call.plan.n_rows);
  fill_queries(call, unit, worker);
  ready_queries(call, unit, worker);
  const int32_t n_pages = call.streams[z(unit.stream)].n_pages();
  const int32_t per_split = (n_pages + call.plan.n_splits - 1) / call.plan.n_splits;
  attend_pages(call, unit, std::min(n_pages, split * per_split),
               std::min(n_pages, (split + 1) * per_split), worker, state);
  if (whole) finish_unit(call, unit, state);
}

// Folds split `from` into split 0.
void merge(const SoftmaxState& into, const SoftmaxState& from, int32_t n_rows, int32_t head_dim_v) {
  for (int32_t r = 0; r < n_rows; ++r) {
    if (from.m[r] == kMinusInf) continue;
    const float m = std::max(into.m[r], from.m[r]);
    const float a = into.m[r] == kMinusInf ? 0.0F : std::exp(into.m[r] - m);
    const float b = std::exp(from.m[r] - m);
    into.s[r] = into.s[r] * a + from.s[r] * b;
    float* acc = into.acc + ptrdiff_t{r} * into.acc_stride;
    const float* other = from.acc + ptrdiff_t{r} * from.acc_stride;
    for (int32_t d = 0; d < head_dim_v; ++d) acc[d] = acc[d] * a + other[d] * b;
    into.m[r] = m;
  }
}

void merge_unit(const Call& call, int64_t unit_index) {
  const Unit unit = unit_of(call, unit_index);
  const SoftmaxState state = partial_state(call, unit_index, 0);
  for (int32_t split = 1; split < call.plan.n_splits; ++split) {
    merge(state, partial_state(call, unit_index, split), unit.n_queries * call.plan.q_per_kv,
          call.plan.head_dim_v);
  }
  finish_unit(call, unit, state);
}

}  // namespace

void alibi_slopes(float max_bias, std::span<float> slopes) {
  const auto n = static_cast<uint32_t>(slopes.size());
  const uint32_t n_pow2 = std::bit_floor(n);
  const float m0 = std::pow(2.0F, -max_bias / static_cast<float>(n_pow2));
  const float m1 = std::pow(2.0F, -(max_bias / 2) / static_cast<float>(n_pow2));
  for (uint32_t h = 0; h < n; ++h) {
    if (max_bias <= 0) {
      slopes[h] = 1;
    } else {
      slopes[h] = h < n_pow2 ? std::pow(m0, static_cast<float>(h + 1))
                             : std::pow(m1, static_cast<float>(2 * (h - n_pow2) + 1));
    }
  }
}

void AttentionWorkspace::reserve_workers(int32_t n_workers, int32_t n_rows, int32_t head_dim_k,
                                         int32_t head_dim_v) {
  if (workers.size() < z(n_workers)) workers.resize(z(n_workers));
  for (Worker& w : workers) {
    if (w.m.size() < z(n_rows)) {
      make_room(w.m, z(n_rows));
      make_room(w.s, z(n_rows));
      make_room(w.q, z(n_rows));
      make_room(w.cold_q, z(n_rows));
      make_room(w.mask, z(n_rows));
      make_room(w.slope, z(n_rows));
      make_room(w.scores, z(n_rows));
    }
    make_room(w.acc, z(n_rows) * z(head_dim_v));
    make_room(w.turned, z(head_dim_k));
  }
}

size_t AttentionWorkspace::bytes() const {
  size_t n = (partials.capacity() + scores.capacity() + final_m.capacity() + final_s.capacity() +
              slopes.capacity() + query_m.capacity() + query_s.capacity()) *
             sizeof(float);
  for (const Worker& w : workers) {
    n += (w.m.capacity() + w.s.capacity() + w.acc.capacity() + w.turned.capacity() +
          w.turned_q.capacity() + w.slope.capacity()) *
             sizeof(float) +
         w.page.bytes() + w.coded_memory.capacity() +
         (w.q.capacity() + w.cold_q.capacity() + w.mask.capacity() + w.scores.capacity()) *
             sizeof(void*);
  }
  for (const auto& r : runs) n += r.capacity() * sizeof(TurnRun);
  return n + places.capacity() * sizeof(int32_t);
}

void attend_streams(const AttendArgs& args, std::span<const StreamRows> streams,
                    const KvKernels& kernels, ParallelFor& parallel, AttentionWorkspace& workspace,
                    MathMode math) {
  assert(streams.size() == z(args.n_streams) && args.n_queries > 0);
  const Plan plan = make_plan(args, streams);
  assert(plan.q_per_kv * plan.n_kv_heads == args.n_heads);
  workspace.reserve_workers(parallel.n_workers(), plan.n_rows, plan.head_dim_k, plan.head_dim_v);
  workspace.slopes.resize(z(args.n_heads));
  alibi_slopes(args.max_bias, workspace.slopes);
  if (plan.n_splits > 1) {
    const size_t n = z(plan.n_units * plan.n_splits * plan.n_rows) * z(plan.head_dim_v + 2);
    make_room(workspace.partials, n);
  }
  if (workspace.runs.size() < streams.size()) workspace.runs.resize(streams.size());
  bool any_scores = false;
  for (size_t s = 0; s < streams.size(); ++s) {
    find_runs(args, streams[s], static_cast<int32_t>(s), workspace.runs[s]);
    any_scores = any_scores || streams[s].mass != nullptr || streams[s].keep_scores;
  }
  workspace.n_places = plan.n_places;
  if (any_scores) {
    assert(args.n_queries == 1);
    const size_t rows = streams.size() * z(args.n_heads);
    make_room(workspace.scores, rows * z(plan.n_places));
    make_room(workspace.final_m, rows);
    make_room(workspace.final_s, rows);
  }
  const Call call{args, streams, kernels, plan, workspace, math == MathMode::kBf16};
  parallel.run(plan.n_units * plan.n_splits,
               [&](int64_t item, int32_t worker) { run_item(call, item, worker); });
  if (plan.n_splits > 1) {
    for (int64_t unit = 0; unit < plan.n_units; ++unit) merge_unit(call, unit);
  }
  if (any_scores) collect_mass(call, parallel);
}

}  // namespace kvasir
