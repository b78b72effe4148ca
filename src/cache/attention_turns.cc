// Attention where positions are slots (--kv-positions cache): queries are turned for each run of
// slots that has the same number of evicted tokens behind it; keys are never rewritten.
#include <algorithm>

#include "cache/attention_call.h"

namespace kvasir::attention {
namespace {

// The part of a run that lies in a page: turned queries, and a mask that hides the lane-aligned
// neighbours that belong to other runs. Slots are counted in the page.
void attend_run(const Call& call, const Unit& unit, const PageRows& rows, bool cold,
                const TurnRun& run, const RowRange& range, AttentionWorkspace::Worker& worker,
                const SoftmaxState& state, bool with_scores) {
  const Rotator& rotator = *call.streams[z(unit.stream)].rotator;
  const int32_t lane = run.first / kLaneSlots * kLaneSlots;  // where the kernel starts
  const bool turned = cold && turns(*call.streams[z(unit.stream)].rows);
  PageArgs a = page_args(call, rows);
  a.k += ptrdiff_t{lane} * a.head_dim_k;
  a.v += ptrdiff_t{lane} * a.head_dim_v;
  a.n_slots = run.end - lane;
  a.n_rows = 1;
  for (int32_t r = range.begin; r < range.end; ++r) {
    const float* q = turned && run.turn == nullptr ? worker.cold_q[z(r)] : worker.q[z(r)];
    if (run.turn != nullptr) {
      rotator.apply(run.turn, q, a.head_dim_k, worker.turned.data());
      if (turned) turn_row(worker.turned.data(), a.head_dim_k);
      q = worker.turned.data();
    }
    const uint16_t* mask = worker.mask[z(r)];
    uint16_t run_mask[kPageSlots];
    for (int32_t i = lane; i < run.end; ++i) {
      run_mask[i - lane] = i < run.first ? kF16MinusInf : (mask == nullptr ? uint16_t{0} : mask[i]);
    }
    const uint16_t* run_mask_row = run_mask;
    float scores[kPageSlots];
    float* scores_row = scores;
    a.q = &q;
    a.mask = &run_mask_row;
    a.scores = with_scores ? &scores_row : nullptr;
    call.kernels.attend_page(a, state_at(state, r));
    if (with_scores) {
      std::copy(scores + (run.first - lane), scores + (run.end - lane),
                worker.scores[z(r)] + run.first);
    }
  }
}

}  // namespace

void attend_turned_page(const Call& call, const Unit& unit, int32_t page, const PageRows& rows,
                        const RowRange& range, AttentionWorkspace::Worker& worker,
                        const SoftmaxState& state, bool with_scores) {
  const ReadOrder& order = call.streams[z(unit.stream)].order;
  const int32_t n_slots = order.slots_in(page);
  const int32_t base = page * kPageSlots;
  const std::vector<TurnRun>& runs = call.workspace.runs[z(unit.stream)];
  auto run = std::upper_bound(runs.begin(), runs.end(), base,
                              [](int32_t slot, const TurnRun& r) { return slot < r.end; });
  for (; run != runs.end() && run->first < base + n_slots; ++run) {
    const TurnRun part{std::max(run->first - base, 0), std::min(run->end - base, n_slots),
                       run->turn};
    attend_run(call, unit, rows, order.is_cold(page), part, range, worker, state, with_scores);
  }
}

void find_runs(const AttendArgs& args, const StreamRows& stream, int32_t stream_index,
               std::vector<TurnRun>& runs) {
  runs.clear();
  const ReadOrder& order = stream.order;
  if (stream.rotator == nullptr || !stream.rotator->rotates() || order.n_slots == 0) return;
  const std::span<const int32_t> positions = stream.rows->positions();
  const int32_t newest = args.positions[z(int64_t{stream_index + 1} * args.n_queries - 1)];
  const int32_t offset = newest - (order.n_slots - 1);
  if (positions[0] - offset == 0) return;  // nothing was evicted: one run as it is
  const auto find_between = [&](int32_t first, int32_t last) {
    while (first < last) {
      const int32_t shift = positions[z(first)] - first;
      int32_t end = first + 1;
      while (end < last && positions[z(end)] - end == shift) ++end;
      const int32_t delta = shift - offset;
      const int32_t place = order.place_of(first);
      runs.push_back(
          {place, place + end - first, delta == 0 ? nullptr : stream.rotator->prepare(delta)});
      first = end;
    }
  };
  // In the order of places: the f16 tier, then the compressed one.
  const int32_t cold_end = order.n_head + order.n_cold;
  find_between(0, order.n_cold == 0 ? order.n_slots : order.n_head);
  if (order.n_cold == 0) return;
  find_between(cold_end, order.n_slots);
  find_between(order.n_head, cold_end);
}

}  // namespace kvasir::attention
