// Attention page by page: which rows of a unit see it, and which kernel reads it.
#include <algorithm>

#include "cache/attention_call.h"
#include "cache/scratch.h"

namespace kvasir::attention {
namespace {

constexpr size_t kCacheLine = 64;

std::byte* aligned(std::byte* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return memory + ((address + kCacheLine - 1) / kCacheLine * kCacheLine - address);
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

// Arguments of a page for rows of `range` from `begin` on.
void set_rows(const Call& call, const RowRange& range, int32_t begin, bool cold, bool with_scores,
              const AttentionWorkspace::Worker& worker, PageArgs& a) {
  a.n_rows = std::min(kMaxRows, range.end - begin);
  a.q = (cold ? worker.cold_q : worker.q).data() + begin;
  a.mask = range.any_mask ? worker.mask.data() + begin : nullptr;
  a.slope = call.args.max_bias > 0 ? worker.slope.data() + begin : nullptr;
  a.scores = with_scores ? worker.scores.data() + begin : nullptr;
}

// K of the page behind `page`, if it is one of the f16 tier that is read in place; else null.
const uint16_t* next_key(const StreamRows& stream, int32_t page, int32_t head) {
  if (page + 1 >= stream.n_pages()) return nullptr;
  const PageRef next = stream.page(page + 1);
  const F16Tier& f16 = stream.rows->rows();
  if (next.cold || next.rows != nullptr || !f16.has_page(next.first / kPageSlots)) return nullptr;
  return f16.k(next.first / kPageSlots, head) +
         ptrdiff_t{next.first % kPageSlots} * f16.geometry().head_dim_k;
}

// One page whose rows all read the query as it is.
void attend_plain_page(const Call& call, const Unit& unit, int32_t page, const PageRef& ref,
                       const PageRows& rows, const RowRange& range,
                       AttentionWorkspace::Worker& worker, const SoftmaxState& state,
                       bool with_scores) {
  const StreamRows& stream = call.streams[z(unit.stream)];
  PageArgs a = page_args(call, rows);
  a.n_slots = ref.n;
  a.next_k = next_key(stream, page, unit.head);
  for (int32_t begin = range.begin; begin < range.end; begin += kMaxRows) {
    set_rows(call, range, begin, ref.cold, with_scores, worker, a);
    const auto attend = call.bf16 ? call.kernels.attend_page_bf16 : call.kernels.attend_page;
    attend(a, state_at(state, begin));
  }
}

// The same from codes. False if they must be decoded: the page has rows of many blocks.
bool attend_coded_page(const Call& call, const Unit& unit, const PageRef& ref,
                       const RowRange& range, AttentionWorkspace::Worker& worker,
                       const SoftmaxState& state, bool with_scores) {
  const StreamRows& stream = call.streams[z(unit.stream)];
  PageArgs a = page_args(call, {});
  a.n_slots = ref.n;
  CodedPage coded;
  if (!stream.rows->cold()->find_page(unit.head, ref.first, a.n_slots, coded)) {
    return false;
  }
  for (int32_t begin = range.begin; begin < range.end; begin += kMaxRows) {
    set_rows(call, range, begin, true, with_scores, worker, a);
    call.kernels.attend_coded(a, coded, worker.coded, begin, state_at(state, begin));
  }
  return true;
}

// Where the scores of the unit's rows in a page go.
void point_scores(const Call& call, const Unit& unit, int32_t page,
                  AttentionWorkspace::Worker& worker) {
  for (int32_t r = 0; r < call.plan.n_rows; ++r) {
    worker.scores[z(r)] = call.workspace.scores.data() +
                          (ptrdiff_t{unit.stream} * call.args.n_heads +
                           ptrdiff_t{unit.head} * call.plan.q_per_kv + r) *
                              call.plan.n_places +
                          ptrdiff_t{page} * kPageSlots;
  }
}

void attend_one_page(const Call& call, const Unit& unit, int32_t page,
                     AttentionWorkspace::Worker& worker, const SoftmaxState& state,
                     bool with_scores) {
  const StreamRows& stream = call.streams[z(unit.stream)];
  const RowRange range = visible_rows(call, unit, page, worker);
  const PageRef ref = stream.page(page);
  PageRows rows;
  if (range.begin < range.end) {
    if (worker.coded.memory != nullptr && ref.cold && ref.rows == nullptr &&
        attend_coded_page(call, unit, ref, range, worker, state, with_scores)) {
      return;
    }
    rows = read_rows(*stream.rows, ref, unit.head, call.kernels, worker.page);
  }
  if (rows.k == nullptr) {
    for (int32_t r = 0; with_scores && r < call.plan.n_rows; ++r) {
      std::fill_n(worker.scores[z(r)], ref.n, kMinusInf);
    }
  } else if (call.workspace.runs[z(unit.stream)].empty()) {
    attend_plain_page(call, unit, page, ref, rows, range, worker, state, with_scores);
  } else {
    attend_turned_page(call, unit, page, rows, range, worker, state, with_scores);
  }
}

}  // namespace

void ready_queries(const Call& call, const Unit& unit, AttentionWorkspace::Worker& worker) {
  turn_queries(call, unit, worker);
  worker.coded = {};
  const ColdTier* cold = call.streams[z(unit.stream)].rows->cold();
  if (cold == nullptr || !cold->attends_coded() || call.kernels.attend_coded == nullptr ||
      !call.workspace.runs[z(unit.stream)].empty()) {
    return;
  }
  const size_t n = coded_query_bytes(call.plan.n_rows, call.plan.head_dim_k);
  make_room(worker.coded_memory, n + kCacheLine);
  worker.coded.memory = aligned(worker.coded_memory.data());
  worker.coded.q = worker.cold_q.data();
  worker.coded.eight_bits = call.bf16;
  worker.coded.n_rows = unit.n_queries * call.plan.q_per_kv;
}

void attend_pages(const Call& call, const Unit& unit, int32_t first_page, int32_t last_page,
                  AttentionWorkspace::Worker& worker, const SoftmaxState& state) {
  const StreamRows& stream = call.streams[z(unit.stream)];
  const bool with_scores = stream.mass != nullptr || stream.keep_scores;
  for (int32_t page = first_page; page < last_page; ++page) {
    if (with_scores) point_scores(call, unit, page, worker);
    attend_one_page(call, unit, page, worker, state, with_scores);
  }
}

}  // namespace kvasir::attention
