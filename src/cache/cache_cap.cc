// A cache under a cap on bytes: what it costs, what it holds, and how it gives room.
#include <algorithm>
#include <cassert>
#include <climits>

#include "base/stopwatch.h"
#include "cache/attention_call.h"
#include "cache/cache.h"
#include "cache/latent_tier.h"
#include "cache/residual_tier.h"
#include "cache/scratch.h"

namespace kvasir {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kPointer = sizeof(void*);
constexpr int64_t kCallRows = attention::kMaxRows;
// Of attention.cc: items that a call is cut into.
constexpr int64_t kMostItems = 64;
constexpr int64_t kRoundings = 128 << 10;  // vectors that are small, of which there are many
constexpr int64_t kLeastMassRows = 32;     // of observed_mass.cc

size_t z(int64_t n) { return static_cast<size_t>(n); }

// One decoded page, as PageScratch keeps it.
int64_t page_scratch(int64_t head_dim_k, int64_t head_dim_v) {
  const int64_t line = 64;
  return (head_dim_k + head_dim_v) * kPageSlots * 2 + 2 * line +
         std::max(head_dim_k, head_dim_v) * kPageSlots * kFloat + line;
}

}  // namespace

void Cache::set_query_heads(int32_t layer, int32_t n_heads) {
  const auto it = layers_.find(layer);
  if (it != layers_.end()) it->second.n_heads = n_heads;
}

LayerShape Cache::shape_of(int32_t layer, const Layer& of) const {
  LayerShape shape;
  shape.object_bytes = sizeof(LayerCache);
  shape.f16_page = static_cast<int64_t>(PageArena::footprint(F16Page::bytes(of.geometry)));
  if (!moves_rows()) {
    shape.n_cells = config_.n_cells;
    return shape;
  }
  if (const auto index = make_index(layer); index != nullptr) {
    const LayerGeometry& g = of.geometry;
    shape.object_bytes += index->fixed_bytes(g.n_kv_heads, g.head_dim_k);
    shape.chunk_bytes = index->chunk_bytes(g.n_kv_heads, g.head_dim_k);
    shape.chunk_slots = index->chunk_tokens();
  }
  const int32_t n_state = evicts() ? policy_.ranker->n_state() : 0;
  shape.sinks = policy_.sinks;
  // Half a budget for the newest tokens asks for as much beside the sinks.
  shape.protect = std::max(policy_.protect, policy_.protect_share > 0 ? policy_.sinks + 1 : 0);
  shape.recent = config_.options.recent;
  shape.slot_bytes = LayerCache::slot_bytes(n_state);
  const RowCodecs codecs = codecs_of(layer);
  if (codecs.demotes()) {
    PageArena none;
    make_cold(layer, none)->describe(shape);
  }
  if (keeps_mass()) {
    shape.slot_bytes += kFloat;
    if (codecs.demotes()) {
      shape.slot_bytes += kFloat;
      shape.object_bytes += kPlacesPadding * kFloat;
    }
  }
  shape.n_queries = n_kept_queries();
  const int64_t n_heads = of.n_heads > 0 ? of.n_heads : of.geometry.n_kv_heads;
  shape.query_bytes = n_heads * of.geometry.head_dim_k * kFloat + int64_t{sizeof(int32_t)};
  return shape;
}

CacheLoad Cache::load(std::span<const int32_t> n_new, int32_t n_workers) const {
  CacheLoad load;
  load.n_streams = config_.n_streams;
  load.shapes.reserve(layers_.size());
  load.loads.reserve(layers_.size() * z(config_.n_streams));
  for (const auto& [id, layer] : layers_) {
    const LayerShape& shape = load.shapes.emplace_back(shape_of(id, layer));
    for (int32_t s = 0; s < config_.n_streams; ++s) {
      LayerLoad& of_stream = load.loads.emplace_back();
      const LayerCache* rows = layer.streams[z(s)].get();
      if (rows == nullptr) continue;
      of_stream = rows->load();
      const StepMass& mass = layer.seen[z(s)].mass;
      const auto held =
          static_cast<int64_t>(rows->row_bytes() + rows->metadata_bytes() +
                               (mass.mass.capacity() + mass.places.capacity()) * sizeof(float));
      of_stream.other_bytes = std::max<int64_t>(0, held - held_bytes(shape, of_stream));
    }
  }
  load.workspace_held = workspace_bytes();
  for (const auto& rotator : rotators_) load.fixed_bytes += static_cast<int64_t>(rotator->bytes());
  load.fixed_bytes += rope_table_bound(n_new);
  load.workspace = [=, this](int64_t most_slots) {
    return workspace_bound(n_new, n_workers, most_slots);
  };
  return load;
}

// Tables that rotate keys which lie unrotated: at least one, which a layer asks for when it is
// first attended.
int64_t Cache::rope_table_bound(std::span<const int32_t> n_new) const {
  int64_t n_positions = config_.n_cells;
  int32_t head_dim = 0;
  for (const auto& [id, layer] : layers_) {
    if (codecs_of(id).store == ColdStore::kCodes) continue;
    head_dim = std::max(head_dim, layer.geometry.head_dim_k);
    for (size_t s = 0; s < n_new.size(); ++s) {
      const LayerCache* rows = layer.streams[s].get();
      if (rows == nullptr || rows->n_slots() == 0) continue;
      n_positions = std::max(n_positions, int64_t{rows->positions().back()} + 1 + n_new[s]);
    }
  }
  if (head_dim == 0) return 0;
  const auto n_tables = std::max<int64_t>(1, static_cast<int64_t>(rope_tables_.size()));
  return n_tables * RopeTable::most_bytes(head_dim, n_positions);
}

// Of encoding rows where no layer holds more than `slots` tokens. Tiers use other vectors of the
// scratch, so that layers of several kinds add up.
int64_t Cache::encode_bound(int64_t slots, int32_t n_workers) const {
  int64_t coded = 0;
  int64_t residual = 0;
  int64_t latent = 0;
  for (const auto& [id, layer] : layers_) {
    const LayerGeometry& g = layer.geometry;
    const RowCodecs codecs = codecs_of(id);
    if (codecs.store == ColdStore::kResidual) {
      residual = std::max(
          residual, ResidualTier::scratch_bytes(g, config_.options.residual, slots, n_workers));
    } else if (codecs.store == ColdStore::kLatent) {
      latent = std::max(latent, LatentTier::scratch_bytes(g, slots, n_workers));
    } else if (codecs.demotes()) {
      coded = std::max(coded, int64_t{n_workers} * kMaxBlockRows *
                                  std::max(g.width_k(), g.width_v()) * (2 * kFloat));
    }
  }
  return coded + coded / 8 + residual + latent;
}

// Everything of a step that is not kept with a layer: masks, attention, observing, evicting. Layers
// come one after the other, so the largest counts. Vectors hold an eighth more than was asked for.
int64_t Cache::workspace_bound(std::span<const int32_t> n_new, int32_t n_workers,
                               int64_t most_slots) const {
  int64_t n_streams = 0;
  int64_t n_tokens = 0;
  int64_t most_queries = 1;
  for (const int32_t n : n_new) {
    n_streams += n > 0 ? 1 : 0;
    n_tokens += n;
    most_queries = std::max<int64_t>(most_queries, n);
  }
  const int64_t slots = moves_rows() ? most_slots : config_.n_cells;
  const int64_t places = slots + kPlacesPadding;
  int64_t per_layer = 0;
  int64_t most_heads = 0;
  int64_t most_dim = 0;
  for (const auto& [id, layer] : layers_) {
    const LayerGeometry& g = layer.geometry;
    const int64_t n_heads = std::max(layer.n_heads, g.n_kv_heads);
    const int64_t per_kv = std::max<int64_t>(1, n_heads / std::max(1, g.n_kv_heads));
    const int64_t rows = std::clamp(kCallRows / per_kv, int64_t{1}, most_queries) * per_kv;
    const bool demotes = codecs_of(id).demotes();
    int64_t worker = rows * (int64_t{g.head_dim_v} * kFloat + 3 * kFloat + 4 * kPointer) +
                     int64_t{g.head_dim_k} * kFloat;
    // Rows that are chosen one by one are put together as compressed ones are.
    if (demotes || selection_ != nullptr) {
      worker += std::max(rows, kLeastMassRows) * g.head_dim_k * kFloat +
                page_scratch(g.head_dim_k, g.head_dim_v) +
                static_cast<int64_t>(coded_query_bytes(static_cast<int32_t>(rows), g.head_dim_k)) +
                kPlacesPadding;
    }
    int64_t bytes = n_workers * worker + kMostItems * rows * (int64_t{g.head_dim_v} + 2) * kFloat;
    const bool observes = selection_ != nullptr &&
                          selection_->observes(index_of(id), static_cast<int32_t>(n_layers()));
    if (needs_.step_mass || observes) bytes += n_streams * n_heads * places * kFloat;
    most_heads = std::max(most_heads, n_heads);
    most_dim = std::max<int64_t>(most_dim, g.head_dim_k);
    bytes += 3 * (n_streams + 1) * n_heads * kFloat;
    if (n_kept_queries() > 0) {
      bytes += 2 * std::max<int64_t>(n_kept_queries(), most_queries) * n_heads * kFloat;
    }
    if (demotes)
      bytes += (n_workers + 1) * places * int64_t{sizeof(int32_t)};  // in the order of attention
    per_layer = std::max(per_layer, bytes + bytes / 8 + kRoundings);
  }
  int64_t shared = encode_bound(slots, n_workers);
  if (selection_ != nullptr) {
    shared += selection_->most_bytes(n_streams, slots, static_cast<int32_t>(most_heads),
                                     static_cast<int32_t>(most_dim));
  }
  const int64_t mask_pages = places / kPageSlots + 1;
  shared += n_tokens * mask_pages * 9 / 8 + 64 * n_streams;  // classes by cell
  if (moves_rows()) {
    shared += n_tokens * (mask_pages + 2 * places) * 9 / 8 + 64 * n_streams;  // in order of slots
    shared += int64_t{n_workers} * 3 * kFloat * slots * 9 / 8;                // evict's scratch
    shared += n_streams * int64_t{sizeof(int32_t)} * places * 9 / 8;          // of masks in order
  }
  if (positions_in_cache()) {
    shared += 2 * n_streams * slots * int64_t{sizeof(TurnRun)};
    for (const auto& [id, layer] : layers_) {
      if (layer.rotator != nullptr && layer.rotator->bytes() > 0) continue;
      shared += Rotator::most_bytes(layer.geometry.head_dim_k);
      break;
    }
  }
  return per_layer + shared;
}

void Cache::cut(int32_t stream, std::span<const int32_t> keep, ParallelFor& parallel) {
  assert(evicts() && keep.size() == layers_.size());
  note_peak();
  stream_changed_[z(stream)] = 1;
  StepState step;
  step.step = n_steps_[z(stream)];
  step.allowance = allowances_[z(stream)];
  LayerState state{0, static_cast<int32_t>(layers_.size()), 0};
  for (auto& [id, layer] : layers_) {
    const int32_t index = state.layer++;
    LayerCache* rows = layer.streams[z(stream)].get();
    if (rows == nullptr) continue;
    if (rows->n_slots() > keep[z(index)]) {
      // What a prompt has looked at so far, as where it is cut chunk by chunk.
      Seen& seen = layer.seen[z(stream)];
      if (seen.prompt) observe({rows, &layer, &seen, index}, step.step, parallel, times_);
      step.n_tokens = rows->positions().back() + 1;
      const int64_t n =
          evict(*rows, step, {index, state.n_layers, rows->n_slots()}, keep[z(index)], scratch_[0]);
      seen.evicted += n;
      cut_rows_[z(stream)] += n;
    }
    demote(*rows, parallel, scratch_[0]);
    const Stopwatch watch(times_.compaction);
    rows->trim();
    StepMass& mass = layer.seen[z(stream)].mass;
    if (!keeps_mass()) continue;
    mass = {};
    mass.heads = needs_.heads;
    mass.mass.reserve(z(rows->slot_capacity()));
    if (rows->cold() != nullptr) mass.places.reserve(z(rows->slot_capacity() + kPlacesPadding));
  }
  take_times();
}

void Cache::drop_from(int32_t stream, int32_t position) {
  if (!moves_rows()) return;
  stream_changed_[z(stream)] = 1;
  for (auto& [id, layer] : layers_) {
    LayerCache* rows = layer.streams[z(stream)].get();
    if (rows != nullptr) rows->drop_from(position);
  }
}

void Cache::give_back_workspace() {
  workspace_ = {};
  for (MaskView& mask : cell_masks_) mask = {};
  for (MaskView& mask : slot_masks_) mask = {};
  for (StepScratch& scratch : scratch_) scratch.trim();
  if (selection_ != nullptr) selection_->give_back();
}

}  // namespace kvasir
