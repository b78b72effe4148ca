// The end of a step: what was looked at becomes ranker state, what is over the budget leaves.
#include <algorithm>
#include <cassert>
#include <climits>
#include <numeric>
#include <utility>

#include "base/stopwatch.h"
#include "cache/cache.h"
#include "cache/scratch.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

// Keys as the layer holds them.
class StoredKeys final : public KeyReader {
 public:
  explicit StoredKeys(const LayerCache& rows) : rows_(rows) {}
  int32_t n_tokens() const override { return rows_.n_slots(); }
  int32_t n_kv_heads() const override { return rows_.rows().geometry().n_kv_heads; }
  int32_t head_dim() const override { return rows_.rows().geometry().head_dim_k; }
  void read(int32_t token, int32_t head, std::span<float> row) const override {
    rows_.read_key(token, head, row.data());
  }

 private:
  const LayerCache& rows_;
};

}  // namespace

// Shows the ranker the rows of an append, which are the newest of the layer.
void Cache::note_arrival(LayerCache& rows, const RowsView& view, bool is_k) {
  if (rows.placement() != Placement::kByArrival || view.n_rows == 0) return;
  const LayerGeometry& g = rows.rows().geometry();
  ArrivingRows arriving;
  arriving.kind = is_k ? ArrivingRows::Kind::kKeys : ArrivingRows::Kind::kValues;
  arriving.data = view.data;
  arriving.stride = view.stride;
  arriving.n_rows = view.n_rows;
  arriving.n_kv_heads = g.n_kv_heads;
  arriving.head_dim = is_k ? g.head_dim_k : g.head_dim_v;
  const size_t width = z(rows.n_state());
  policy_.ranker->arrive(arriving, rows.state().last(z(view.n_rows) * width));
}

// Column sums of a chunk of one token are made when it is known to be no decode step.
int32_t Cache::n_kept_queries() const {
  return std::max(needs_.observed_queries, needs_.column_sums ? 1 : 0);
}

// How a layer attends, for queries that are looked at later.
void Cache::note_shape(Layer& layer, const AttendArgs& args) const {
  if (n_kept_queries() == 0) return;
  layer.shape.n_heads = args.n_heads;
  layer.shape.scale = args.scale;
  layer.shape.soft_cap = args.soft_cap;
  layer.shape.max_bias = args.max_bias;
  if (args.sinks != nullptr) layer.shape.sinks.assign(args.sinks, args.sinks + args.n_heads);
}

// Keeps the newest queries of a call for rankers that look at prompts.
void Cache::note_queries(Layer& layer, LayerCache& rows, int32_t index, const AttendArgs& args) {
  const int32_t n_kept = n_kept_queries();
  if (n_kept == 0) return;
  const int32_t width = layer.geometry.head_dim_k;
  rows.ring().configure(n_kept, args.n_heads * width);
  const int32_t first = std::max(0, args.n_queries - n_kept);
  for (int32_t t = first; t < args.n_queries; ++t) {
    float* row = rows.ring().push(args.positions[z(int64_t{index} * args.n_queries + t)]);
    const float* q = args.q + index * args.q_stream + t * args.q_query;
    for (int32_t h = 0; h < args.n_heads; ++h) {
      std::copy_n(q + h * args.q_head, width, row + ptrdiff_t{h} * width);
    }
  }
}

// Adds the mass of a prompt's queries to the state of what they see.
void Cache::sum_columns(Layer& layer, LayerCache& rows, const MassQueries& queries,
                        ParallelFor& parallel) {
  const Stopwatch watch(times_.metadata);
  add_query_mass(rows, layer.shape, queries, needs_.heads, 1.0F, *kernels_, parallel, workspace_,
                 rows.state(), rows.n_state());
}

// The end of a prompt's chunk: a single query is summed here, more were when they attended.
void Cache::end_chunk(Layer& layer, LayerCache& rows, int32_t stream, ParallelFor& parallel) {
  Seen& seen = layer.seen[z(stream)];
  const QueryRing& ring = rows.ring();
  if (needs_.column_sums && !seen.chunk && ring.size() > 0) {
    const int32_t newest = ring.newest();
    const int32_t width = layer.geometry.head_dim_k;
    sum_columns(layer, rows, {ring.row(newest), 0, width, ring.positions().subspan(z(newest), 1)},
                parallel);
  }
  seen.prompt = true;
}

// True if this step ends with the mass of the newest queries: two passes over all keys, which take
// all workers.
bool Cache::observes_window(const Seen& seen) const {
  const bool due = needs_.observe_every > 0 && seen.n_steps + 1 >= needs_.observe_every;
  return needs_.observed_queries > 0 && (seen.prompt || due);
}

// Tells the ranker what was looked at: the step's own mass after one token, the mass of the newest
// queries after a prompt and, where it is asked for, every so many steps.
void Cache::observe(const EndingLayer& ending, int64_t step, ParallelFor& parallel,
                    CacheTimes& times) {
  const Stopwatch watch(times.metadata);
  LayerCache& rows = *ending.rows;
  Seen& seen = *ending.seen;
  std::vector<float>& mass = seen.mass.mass;
  Mass told;
  told.step = step;
  const auto tell = [&](Mass::Kind kind, int32_t n_queries) {
    told.kind = kind;
    told.mass = mass;
    told.n_queries = n_queries;
    told.n_fresh = rows.take_fresh();
    policy_.ranker->observe(told, rows.state());
  };
  if (!seen.prompt && seen.mass.valid && mass.size() == z(rows.n_slots())) {
    tell(Mass::Kind::kStep, 1);
  }
  const bool window = observes_window(seen);
  ++seen.n_steps;
  if (window) {
    mass.resize(z(rows.n_slots()));
    observed_mass(rows, ending.layer->shape, needs_.heads, *kernels_, parallel, workspace_, mass);
    tell(Mass::Kind::kObserved, rows.ring().size());
    seen.n_steps = 0;
  }
  seen.prompt = false;
  if (needs_.observe_every == 0) rows.ring().clear();
}

// Which of the candidates leave: their indices among the candidates, ascending.
std::span<const int32_t> Cache::rank(const LayerCache& rows, Candidates candidates, int32_t n_evict,
                                     StepScratch& scratch) {
  const Stopwatch watch(scratch.times.ranking);
  std::vector<float>& scores = scratch.scores;
  std::vector<int32_t>& order = scratch.order;
  const auto n_candidates = static_cast<int32_t>(candidates.positions.size());
  scores.resize(z(n_candidates));
  order.resize(z(n_candidates));
  const StoredKeys keys(rows);
  candidates.scratch = order;
  candidates.keys = needs_.keys ? &keys : nullptr;
  policy_.ranker->score(candidates, scores);
  for (int32_t i = 0; i < n_candidates; ++i) order[z(i)] = i;
  const auto lower = [&](int32_t a, int32_t b) {  // evicted earlier; ties: the older
    return scores[z(a)] != scores[z(b)] ? scores[z(a)] < scores[z(b)] : a < b;
  };
  if (n_evict < n_candidates) {
    std::nth_element(order.begin(), order.begin() + n_evict, order.end(), lower);
  }
  std::sort(order.begin(), order.begin() + n_evict);
  return std::span(order).first(z(n_evict));
}

int64_t Cache::evict(LayerCache& rows, const StepState& step, const LayerState& layer,
                     int32_t budget, StepScratch& scratch) {
  const int32_t n = layer.live;
  if (n <= budget) return 0;
  const Stopwatch watch(scratch.times.compaction);
  const auto recent = static_cast<int32_t>(policy_.protect_share * budget);
  const int32_t first = std::min(policy_.sinks, n);
  const int32_t last = std::max(first, n - std::max(policy_.protect, recent));
  const int32_t n_candidates = last - first;
  const int32_t n_evict = std::min(n - budget, n_candidates);
  if (n_evict <= 0) return 0;
  if (z(n) > scratch.scores.capacity()) {
    make_room(scratch.scores, z(n));
    make_room(scratch.order, z(n));
    make_room(scratch.survivors, z(n));
  }
  const size_t width = z(rows.n_state());
  Candidates candidates;
  candidates.positions = rows.positions().subspan(z(first), z(n_candidates));
  candidates.state = rows.state().subspan(z(first) * width, z(n_candidates) * width);
  candidates.layer = layer.layer;
  candidates.first = first;
  candidates.step = step.step;
  candidates.newest = step.n_tokens - 1;
  const std::span<const int32_t> leave = rank(rows, candidates, n_evict, scratch);
  const int32_t hole = first + leave[0];
  scratch.survivors.clear();
  size_t next = 0;
  for (int32_t slot = hole; slot < n; ++slot) {
    if (next < leave.size() && slot == first + leave[next]) {
      ++next;
    } else {
      scratch.survivors.push_back(slot);
    }
  }
  rows.keep(hole, scratch.survivors);
  return n_evict;
}

void Cache::demote(LayerCache& rows, ParallelFor& parallel, StepScratch& scratch) {
  if (rows.cold() == nullptr) return;
  int64_t taken = 0;
  {
    const Stopwatch watch(taken);
    rows.demote(policy_.sinks, config_.options.recent, parallel, scratch.encode);
  }
  scratch.times.demotion += taken;
  scratch.times.compaction += taken;
}

// Adds what workers spent since it was last added. Several at once spend more than the time that
// passed, which is then shared out; of one worker it is the same.
void Cache::take_times(std::optional<int64_t> passed) {
  int64_t spent = 0;
  for (const StepScratch& s : scratch_) spent += s.times.metadata + s.times.compaction;
  const double share =
      passed && spent > 0 ? static_cast<double>(*passed) / static_cast<double>(spent) : 1.0;
  const auto add = [share](int64_t& sum, int64_t part) {
    sum += static_cast<int64_t>(share * static_cast<double>(part));
  };
  for (StepScratch& s : scratch_) {
    add(times_.metadata, s.times.metadata);
    add(times_.compaction, s.times.compaction);
    add(times_.ranking, s.times.ranking);
    add(times_.demotion, s.times.demotion);
    s.times = {};
  }
}

void Cache::reserve_scratch(int32_t n_workers) {
  if (scratch_.size() < z(n_workers)) scratch_.resize(z(n_workers));
}

// The layers of a stream that hold something.
void Cache::list_layers(int32_t stream) {
  ending_.clear();
  int32_t index = 0;
  for (auto& [id, layer] : layers_) {
    LayerCache* rows = layer.streams[z(stream)].get();
    if (rows != nullptr) ending_.push_back({rows, &layer, &layer.seen[z(stream)], index});
    ++index;
  }
}

// What one layer does at the end of a step by itself: several layers may do it at once.
void Cache::look_after(EndingLayer& ending, const StepState& step, StepScratch& scratch) {
  SerialFor alone;
  if (evicts()) {
    if (!ending.observed) observe(ending, step.step, alone, scratch.times);
    const LayerState state{ending.index, static_cast<int32_t>(layers_.size()),
                           ending.rows->n_slots()};
    ending.budget = policy_.budget->tokens(step, state);
    ending.evicted = evict(*ending.rows, step, state, ending.budget, scratch);
    ending.seen->evicted += ending.evicted;
  }
  const ColdTier* cold = ending.rows->cold();
  if (cold != nullptr && !cold->encodes_together()) demote(*ending.rows, alone, scratch);
}

void Cache::end_step(int32_t stream, const StepState& step, ParallelFor& parallel,
                     StepRecord& record) {
  const bool may_move =
      moves_rows() && (step.decoded || config_.options.prefill == PrefillMode::kStream);
  const bool may_evict = evicts() && may_move;
  note_peak();  // rows grow until here and shrink below
  StepState known = step;
  known.step = n_steps_[z(stream)];
  known.allowance = allowances_[z(stream)];
  record.evicted += std::exchange(cut_rows_[z(stream)], 0);
  list_layers(stream);
  reserve_scratch(parallel.n_workers());
  for (const EndingLayer& e : ending_) {
    if (!evicts() || e.rows->n_slots() == 0) continue;
    if (&e == ending_.data()) known.n_tokens = e.rows->positions().back() + 1;
    if (!step.decoded || e.seen->prompt) end_chunk(*e.layer, *e.rows, stream, parallel);
    e.seen->chunk = false;
  }
  stream_changed_[z(stream)] = 1;
  if (may_move) {
    for (EndingLayer& e : ending_) {
      e.observed = may_evict && observes_window(*e.seen);
      if (e.observed) observe(e, known.step, parallel, times_);
    }
    int64_t passed = 0;
    {
      const Stopwatch watch(passed);
      parallel.run(static_cast<int64_t>(ending_.size()), [&](int64_t item, int32_t worker) {
        look_after(ending_[z(item)], known, scratch_[z(worker)]);
      });
      for (const EndingLayer& e : ending_) {
        const ColdTier* cold = e.rows->cold();
        if (cold != nullptr && cold->encodes_together()) demote(*e.rows, parallel, scratch_[0]);
      }
    }
    take_times(passed);
    note_peak();  // what observing and demoting took
  }
  if (may_evict) ++n_steps_[z(stream)];
  record_step(may_evict, record);
}

// What is there once a step has ended.
void Cache::record_step(bool may_evict, StepRecord& record) const {
  record.live_min = ending_.empty() ? 0 : INT_MAX;
  double live_sum = 0;
  for (const EndingLayer& e : ending_) {
    if (may_evict && e.index == 0) {
      record.has_budget = true;
      record.budget = e.budget;
    }
    record.evicted += e.evicted;
    record.live_min = std::min(record.live_min, e.rows->n_slots());
    record.live_max = std::max(record.live_max, e.rows->n_slots());
    live_sum += e.rows->n_slots();
    record.bytes_f16 += static_cast<int64_t>(e.rows->f16_bytes());
    record.bytes_demoted += static_cast<int64_t>(e.rows->cold_bytes());
  }
  record.live_mean = ending_.empty() ? 0 : live_sum / static_cast<double>(ending_.size());
}

void Cache::drop(int32_t stream, int32_t first, int32_t last) {
  assert(evicts());
  for (auto& [id, layer] : layers_) {
    LayerCache* rows = layer.streams[z(stream)].get();
    if (rows == nullptr) continue;
    const auto positions = rows->positions();
    const auto begin = std::lower_bound(positions.begin(), positions.end(), first);
    const auto end = std::lower_bound(begin, positions.end(), last);
    if (begin == end) continue;
    const auto hole = static_cast<int32_t>(begin - positions.begin());
    std::vector<int32_t>& survivors = scratch_[0].survivors;
    survivors.resize(static_cast<size_t>(positions.end() - end));
    std::iota(survivors.begin(), survivors.end(), static_cast<int32_t>(end - positions.begin()));
    layer.seen[z(stream)].evicted += end - begin;
    rows->keep(hole, survivors);
  }
  stream_changed_[z(stream)] = 1;
}

}  // namespace kvasir
