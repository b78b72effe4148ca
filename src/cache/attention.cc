#include "cache/attention.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "cache/attention_call.h"
#include "cache/scratch.h"

namespace kvasir {

using attention::attend_turned_page;
using attention::Call;
using attention::find_runs;
using attention::page_args;
using attention::Plan;
using attention::RowRange;
using attention::state_at;
using attention::turns;
using attention::Unit;
using attention::z;

namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr int32_t kMaxRows = 64;       // query rows of one kernel call
constexpr int32_t kMinSplitPages = 4;  // pages that make a split worth its merge
// Items that a call is cut into where the context is long enough. A constant, not the number of
// threads: the cut decides the order of sums, and results must not depend on threads.
constexpr int64_t kTargetItems = 32;

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
  for (const StreamRows& s : streams) n_pages = std::max(n_pages, s.order.n_pages());
  plan.n_places = n_pages * kPageSlots;
  const int64_t wanted = (kTargetItems + plan.n_units - 1) / plan.n_units;
  plan.n_splits =
      static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, std::max(1, n_pages / kMinSplitPages)));
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

RowRange visible_rows(const Call& call, const Unit& unit, int32_t page,
                      AttentionWorkspace::Worker& worker) {
  const MaskView& mask = *call.streams[z(unit.stream)].mask;
  const int32_t g = call.plan.q_per_kv;
  RowRange range{unit.n_queries, 0, false};
  for (int32_t t = 0; t < unit.n_queries; ++t) {
    const int32_t query = unit.first_query + t;
    const MaskView::Visibility v = mask.visibility(query, page);
    if (v != MaskView::kHidden) {
      range.begin = std::min(range.begin, t);
      range.end = t + 1;
    }
    const uint16_t* values = mask.page_mask(query, page);
    range.any_mask = range.any_mask || values != nullptr;
    for (int32_t j = 0; j < g; ++j) worker.mask[z(t * g + j)] = values;
  }
  return {range.begin * g, range.end * g, range.any_mask};
}

// Keys that lie turned are read with queries that are turned alike.
void turn_queries(const Call& call, const Unit& unit, AttentionWorkspace::Worker& worker) {
  const StreamRows& stream = call.streams[z(unit.stream)];
  const int32_t n_rows = unit.n_queries * call.plan.q_per_kv;
  std::copy_n(worker.q.begin(), n_rows, worker.cold_q.begin());
  if (stream.order.n_cold == 0 || !turns(*stream.rows)) return;
  const int32_t width = call.plan.head_dim_k;
  make_room(worker.turned_q, z(n_rows) * z(width));
  for (int32_t r = 0; r < n_rows; ++r) {
    float* q = worker.turned_q.data() + ptrdiff_t{r} * width;
    std::copy_n(worker.q[z(r)], width, q);
    turn_row(q, width);
    worker.cold_q[z(r)] = q;
  }
}

// One page whose rows all read the query as it is.
void attend_plain_page(const Call& call, const Unit& unit, int32_t page, const PageRows& rows,
                       const RowRange& range, AttentionWorkspace::Worker& worker,
                       const SoftmaxState& state, bool with_scores) {
  const StreamRows& stream = call.streams[z(unit.stream)];
  const bool cold = stream.order.is_cold(page);
  const F16Tier& f16 = stream.rows->rows();
  PageArgs a = page_args(call, rows);
  a.n_slots = stream.order.slots_in(page);
  const bool next_is_f16 = page + 1 < stream.order.f16_pages() && f16.has_page(page + 1);
  a.next_k = next_is_f16 ? f16.k(page + 1, unit.head) : nullptr;
  for (int32_t begin = range.begin; begin < range.end; begin += kMaxRows) {
    a.n_rows = std::min(kMaxRows, range.end - begin);
    a.q = (cold ? worker.cold_q : worker.q).data() + begin;
    a.mask = range.any_mask ? worker.mask.data() + begin : nullptr;
    a.slope = call.args.max_bias > 0 ? worker.slope.data() + begin : nullptr;
    a.scores = with_scores ? worker.scores.data() + begin : nullptr;
    call.kernels.attend_page(a, state_at(state, begin));
  }
}

void attend_pages(const Call& call, const Unit& unit, int32_t first_page, int32_t last_page,
                  AttentionWorkspace::Worker& worker, const SoftmaxState& state) {
  const StreamRows& stream = call.streams[z(unit.stream)];
  const bool with_scores = stream.mass != nullptr;
  for (int32_t page = first_page; page < last_page; ++page) {
    if (with_scores) {
      for (int32_t r = 0; r < call.plan.n_rows; ++r) {
        worker.scores[z(r)] = call.workspace.scores.data() +
                              (ptrdiff_t{unit.stream} * call.args.n_heads +
                               ptrdiff_t{unit.head} * call.plan.q_per_kv + r) *
                                  call.plan.n_places +
                              ptrdiff_t{page} * kPageSlots;
      }
    }
    const RowRange range = visible_rows(call, unit, page, worker);
    PageRows rows;
    if (range.begin < range.end) {
      rows = read_page(*stream.rows, stream.order, page, unit.head, call.kernels, worker.page);
    }
    if (rows.k == nullptr) {
      if (with_scores) {
        for (int32_t r = 0; r < call.plan.n_rows; ++r) {
          std::fill_n(worker.scores[z(r)], stream.order.slots_in(page), kMinusInf);
        }
      }
    } else if (call.workspace.runs[z(unit.stream)].empty()) {
      attend_plain_page(call, unit, page, rows, range, worker, state, with_scores);
    } else {
      attend_turned_page(call, unit, page, rows, range, worker, state, with_scores);
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
  turn_queries(call, unit, worker);
  const int32_t n_pages = call.streams[z(unit.stream)].order.n_pages();
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

void collect_mass(const Call& call, int32_t stream_index, ParallelFor& parallel) {
  const StreamRows& stream = call.streams[z(stream_index)];
  const int32_t n_heads = call.args.n_heads;
  const ReadOrder& order = stream.order;
  StepMass& mass = *stream.mass;
  mass.mass.assign(z(order.n_slots), 0.0F);
  mass.valid = true;
  const int32_t n_places = order.is_identity() ? order.n_slots : order.n_places();
  if (!order.is_identity()) mass.places.assign(z(n_places), 0.0F);
  float* sums = order.is_identity() ? mass.mass.data() : mass.places.data();
  const bool most = mass.heads == HeadReduction::kMax;
  const float weight = most ? 1.0F : 1.0F / static_cast<float>(n_heads);
  const int32_t n_pages = order.n_pages();
  constexpr int32_t pages_per_item = 8;
  parallel.run((n_pages + pages_per_item - 1) / pages_per_item, [&](int64_t item, int32_t) {
    const auto first = static_cast<int32_t>(item) * pages_per_item * kPageSlots;
    const int32_t n = std::min(pages_per_item * kPageSlots, n_places - first);
    for (int32_t h = 0; h < n_heads; ++h) {
      const auto row = z(stream_index * n_heads + h);
      if (!(call.workspace.final_s[row] > 0)) continue;
      float of_head[pages_per_item * kPageSlots];
      float* sum = sums + first;
      if (most) std::fill_n(of_head, n, 0.0F);
      call.kernels.add_mass(call.workspace.scores.data() + row * z(call.plan.n_places) + first, n,
                            call.workspace.final_m[row], call.workspace.final_s[row], weight,
                            most ? of_head : sum);
      for (int32_t i = 0; most && i < n; ++i) sum[i] = std::max(sum[i], of_head[i]);
    }
  });
  if (!order.is_identity()) {
    order.to_slots(std::span<const float>(mass.places), std::span<float>(mass.mass));
  }
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
         w.page.bytes() +
         (w.q.capacity() + w.cold_q.capacity() + w.mask.capacity() + w.scores.capacity()) *
             sizeof(void*);
  }
  for (const auto& r : runs) n += r.capacity() * sizeof(TurnRun);
  return n + places.capacity() * sizeof(int32_t);
}

void attend_streams(const AttendArgs& args, std::span<const StreamRows> streams,
                    const KvKernels& kernels, ParallelFor& parallel,
                    AttentionWorkspace& workspace) {
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
  bool any_mass = false;
  for (size_t s = 0; s < streams.size(); ++s) {
    find_runs(args, streams[s], static_cast<int32_t>(s), workspace.runs[s]);
    any_mass = any_mass || streams[s].mass != nullptr;
  }
  if (any_mass) {
    assert(args.n_queries == 1);
    const size_t rows = streams.size() * z(args.n_heads);
    make_room(workspace.scores, rows * z(plan.n_places));
    make_room(workspace.final_m, rows);
    make_room(workspace.final_s, rows);
  }
  const Call call{args, streams, kernels, plan, workspace};
  parallel.run(plan.n_units * plan.n_splits,
               [&](int64_t item, int32_t worker) { run_item(call, item, worker); });
  if (plan.n_splits > 1) {
    for (int64_t unit = 0; unit < plan.n_units; ++unit) merge_unit(call, unit);
  }
  for (size_t s = 0; s < streams.size(); ++s) {
    if (streams[s].mass != nullptr) collect_mass(call, static_cast<int32_t>(s), parallel);
  }
}

}  // namespace kvasir
