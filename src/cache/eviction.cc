// The end of a step: what was looked at becomes ranker state, what is over the budget leaves.
#include <algorithm>
#include <cassert>
#include <climits>
#include <numeric>

#include "base/stopwatch.h"
#include "cache/cache.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

// Keeps the newest queries of a call for rankers that look at prompts.
void Cache::note_queries(Layer& layer, LayerCache& rows, int32_t index, const AttendArgs& args) {
  if (needs_.observed_queries == 0) return;
  const int32_t width = layer.geometry.head_dim_k;
  layer.shape.n_heads = args.n_heads;
  layer.shape.scale = args.scale;
  layer.shape.soft_cap = args.soft_cap;
  layer.shape.max_bias = args.max_bias;
  if (args.sinks != nullptr) layer.shape.sinks.assign(args.sinks, args.sinks + args.n_heads);
  rows.ring().configure(needs_.observed_queries, args.n_heads * width);
  const int32_t first = std::max(0, args.n_queries - needs_.observed_queries);
  for (int32_t t = first; t < args.n_queries; ++t) {
    float* row = rows.ring().push(args.positions[z(int64_t{index} * args.n_queries + t)]);
    const float* q = args.q + index * args.q_stream + t * args.q_query;
    for (int32_t h = 0; h < args.n_heads; ++h) {
      std::copy_n(q + h * args.q_head, width, row + ptrdiff_t{h} * width);
    }
  }
}

// Folds what the step looked at into the ranker's state: the step's own mass after one token, the
// mass of the newest queries after a prompt.
void Cache::observe(Layer& layer, LayerCache& rows, int32_t stream, ParallelFor& parallel) {
  const Stopwatch watch(times_.metadata);
  StepMass& mass = layer.masses[z(stream)];
  const bool one_token =
      rows.ring().n_pushed() <= 1 && mass.valid && mass.mass.size() == z(rows.n_slots());
  if (!one_token) {
    mass.mass.resize(z(rows.n_slots()));
    observed_mass(rows, layer.shape, *kernels_, parallel, workspace_, mass.mass);
  }
  policy_.ranker->observe(mass.mass, rows.take_fresh(), !one_token, rows.state());
  rows.ring().clear();
}

int64_t Cache::evict(LayerCache& rows, int32_t budget) {
  const int32_t n = rows.n_slots();
  if (n <= budget) return 0;
  const Stopwatch watch(times_.compaction);
  const int32_t first = std::min(policy_.sinks, n);
  const int32_t last = std::max(first, n - policy_.protect);
  const int32_t n_candidates = last - first;
  const int32_t n_evict = std::min(n - budget, n_candidates);
  if (n_evict <= 0) return 0;
  const Candidates candidates{
      rows.positions().subspan(z(first), z(n_candidates)),
      std::span<const float>(rows.state()).subspan(z(first), z(n_candidates))};
  scores_.resize(z(n_candidates));
  policy_.ranker->score(candidates, scores_);
  order_.resize(z(n_candidates));
  for (int32_t i = 0; i < n_candidates; ++i) order_[z(i)] = i;
  const auto lower = [&](int32_t a, int32_t b) {  // evicted earlier; ties: the older
    return scores_[z(a)] != scores_[z(b)] ? scores_[z(a)] < scores_[z(b)] : a < b;
  };
  if (n_evict < n_candidates) {
    std::nth_element(order_.begin(), order_.begin() + n_evict, order_.end(), lower);
  }
  std::sort(order_.begin(), order_.begin() + n_evict);
  const int32_t hole = first + order_[0];
  survivors_.clear();
  size_t next = 0;
  for (int32_t slot = hole; slot < n; ++slot) {
    if (next < z(n_evict) && slot == first + order_[next]) {
      ++next;
    } else {
      survivors_.push_back(slot);
    }
  }
  rows.keep(hole, survivors_);
  return n_evict;
}

void Cache::end_step(int32_t stream, const StepState& step, ParallelFor& parallel,
                     StepRecord& record) {
  const bool may_move =
      moves_rows() && (step.decoded || config_.options.prefill == PrefillMode::kStream);
  const bool may_evict = evicts() && may_move;
  note_peak();  // rows grow until here and shrink below
  record.live_min = INT_MAX;
  double live_sum = 0;
  int32_t n_live = 0;
  int32_t index = 0;
  for (auto& [id, layer] : layers_) {
    LayerCache* rows = layer.streams[z(stream)].get();
    const int32_t layer_index = index++;
    if (rows == nullptr) continue;
    if (may_evict) {
      if (needs_.step_mass) observe(layer, *rows, stream, parallel);
      const int32_t budget =
          policy_.budget->tokens(step, layer_index, static_cast<int32_t>(layers_.size()));
      if (layer_index == 0) {
        record.has_budget = true;
        record.budget = budget;
      }
      const int64_t n = evict(*rows, budget);
      record.evicted += n;
      evicted_rows_[z(stream)] += n;
    }
    if (may_move) {
      const Stopwatch watch(times_.compaction);
      rows->demote(policy_.sinks, config_.options.recent, encode_);
    }
    record.live_min = std::min(record.live_min, rows->n_slots());
    record.live_max = std::max(record.live_max, rows->n_slots());
    live_sum += rows->n_slots();
    ++n_live;
    record.bytes_f16 += static_cast<int64_t>(rows->f16_bytes());
    record.bytes_demoted += static_cast<int64_t>(rows->cold_bytes());
  }
  if (n_live == 0) record.live_min = 0;
  record.live_mean = n_live == 0 ? 0 : live_sum / n_live;
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
    survivors_.resize(static_cast<size_t>(positions.end() - end));
    std::iota(survivors_.begin(), survivors_.end(), static_cast<int32_t>(end - positions.begin()));
    evicted_rows_[z(stream)] += end - begin;
    rows->keep(hole, survivors_);
  }
}

}  // namespace kvasir
