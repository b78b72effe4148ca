// A step reads: what each stream of a call sees, and its attention.
#include <algorithm>
#include <cassert>
#include <cstdint>

#include "base/stopwatch.h"
#include "cache/cache.h"
#include "cache/scratch.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

// A cell that the newest query sees holds a row, or its token was evicted. Anything else means that
// rows came or went behind the cache's back, and an answer would be silently wrong.
Result<void> Cache::check_visible(int32_t stream, const LayerCache& layer, int64_t evicted,
                                  const CellMask& mask) const {
  if (mask.data == nullptr) return {};
  const uint16_t* newest = mask.data + (mask.n_queries - 1) * mask.stride;
  int32_t n_visible = 0;
  for (int32_t c = 0; c < mask.n_cells; ++c) n_visible += newest[c] != kF16MinusInf ? 1 : 0;
  const int64_t known = layer.n_slots() + evicted;
  if (n_visible <= known) return {};
  return Error{"stream " + std::to_string(stream) + " sees " + std::to_string(n_visible) +
               " tokens but holds " + std::to_string(known) +
               ": a cache whose rows are evicted or demoted needs one sequence per stream; pass "
               "--no-kv-unified"};
}

// What one stream of a call reads, and who sees it.
Result<void> Cache::view_stream(const AttendArgs& args, int32_t i, Layer& layer,
                                ParallelFor& parallel, StepScratch& scratch, StreamRows& view) {
  const int32_t stream = args.first_stream + i;
  if (lost_[z(stream)]) {
    return Error{"stream " + std::to_string(stream) +
                 " was restored or copied, which --kv-budget-mb does not allow: pass --cache-ram "
                 "0 --ctx-checkpoints 0"};
  }
  LayerCache& rows = layer_cache(args.layer, stream);
  const CellMask mask{args.mask == nullptr ? nullptr : args.mask + i * args.mask_stream,
                      args.mask_query, args.n_queries, args.n_cells};
  view.rows = &rows;
  if (rows.placement() == Placement::kByCell) {
    cell_masks_[z(stream)].set_identity(mask, args.epoch);
    view.mask = &cell_masks_[z(stream)];
    view.order.n_slots = std::min(rows.n_slots(), args.n_cells);
    return {};
  }
  if (mask.data != nullptr) {
    rows.drop_hidden(mask.data + (mask.n_queries - 1) * mask.stride, mask.n_cells);
  }
  if (args.layer == layers_.begin()->first) {
    Result<void> all = check_visible(stream, rows, layer.seen[z(stream)].evicted, mask);
    if (!all) return all;
  }
  view.order = rows.read_order();
  bool narrowed = false;
  if (selection_ != nullptr) {
    const Stopwatch chosen(times_.selection);
    narrowed = selection_->narrow(args, i, mask, rows, parallel, view);
  }
  if (narrowed) {
    // The mask is of what is read.
  } else if (!view.order.is_identity()) {
    make_room(scratch.places, z(view.order.n_places()));
    const auto places = std::span(scratch.places).first(z(view.order.n_places()));
    view.order.to_places(rows.cells(), kNoCell, places);
    slot_masks_[z(stream)].set_gathered(mask, places, args.epoch);
    view.mask = &slot_masks_[z(stream)];
  } else if (rows.is_identity() && mask.data != nullptr) {
    CellMask live = mask;
    live.n_cells = std::min(mask.n_cells, rows.n_slots());
    cell_masks_[z(stream)].set_identity(live, args.epoch);
    view.mask = &cell_masks_[z(stream)];
  } else {
    slot_masks_[z(stream)].set_gathered(mask, rows.cells(), args.epoch);
    view.mask = &slot_masks_[z(stream)];
  }
  Seen& seen = layer.seen[z(stream)];
  seen.chunk = args.n_queries > 1;
  seen.prompt = seen.prompt || seen.chunk;
  seen.mass.valid = false;
  seen.mass.heads = needs_.heads;
  if (needs_.step_mass && args.n_queries == 1) view.mass = &seen.mass;
  view.rotator = layer.rotator;
  if (view.rotator != nullptr && args.max_bias > 0) {
    return Error{"--kv-positions cache is not available for a model with ALiBi: use original"};
  }
  note_queries(layer, rows, i, args);
  return {};
}

// Each stream by itself; a selection, which takes all workers for one, in turn.
Result<void> Cache::view_streams(const AttendArgs& args, Layer& layer, ParallelFor& parallel) {
  note_shape(layer, args);
  reserve_scratch(parallel.n_workers());
  workspace_.streams.assign(z(args.n_streams), {});
  viewed_.assign(z(args.n_streams), {});
  for (int32_t i = 0; i < args.n_streams; ++i) stream_changed_[z(args.first_stream + i)] = 1;
  SerialFor in_turn;
  ParallelFor& over_streams = selection_ == nullptr ? parallel : in_turn;
  over_streams.run(args.n_streams, [&](int64_t i, int32_t worker) {
    viewed_[z(i)] = view_stream(args, static_cast<int32_t>(i), layer, parallel, scratch_[z(worker)],
                                workspace_.streams[z(i)]);
  });
  for (Result<void>& viewed : viewed_) {
    if (!viewed) return viewed;
  }
  return {};
}

Result<void> Cache::attend(const AttendArgs& args, ParallelFor& parallel) {
  const Stopwatch watch(times_.attention);
  Layer& layer = layers_.at(args.layer);
  if (selection_ != nullptr) {
    auto begun = selection_->begin(args, layer.geometry, index_of(args.layer),
                                   static_cast<int32_t>(layers_.size()));
    if (!begun) return begun;
  }
  Result<void> viewed = view_streams(args, layer, parallel);
  if (!viewed) return viewed;
  attend_streams(args, workspace_.streams, *kernels_, parallel, workspace_, config_.options.math);
  if (selection_ != nullptr) {
    const Stopwatch chosen(times_.selection);
    selection_->finish(args, workspace_.streams, workspace_, parallel);
  }
  if (needs_.column_sums && args.n_queries > 1) {
    for (int32_t i = 0; i < args.n_streams; ++i) {
      const MassQueries queries{
          args.q + i * args.q_stream, args.q_query, args.q_head,
          args.positions.subspan(z(int64_t{i} * args.n_queries), z(args.n_queries))};
      sum_columns(layer, layer_cache(args.layer, args.first_stream + i), queries, parallel);
    }
  }
  return {};
}

}  // namespace kvasir
