#include "cache/cache.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "base/stopwatch.h"
#include "cache/coded_tier.h"
#include "cache/latent_tier.h"
#include "cache/residual_tier.h"
#include "cache/scratch.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

Error out_of_memory(int32_t layer, int32_t stream, int64_t bytes) {
  return Error{"out of memory: no page for layer " + std::to_string(layer) + " of stream " +
               std::to_string(stream) + " (the cache holds " + std::to_string(bytes >> 20) +
               " MiB); lower --kv-budget or the context"};
}

// The one of all that was made from `spec`, made where there is none.
template <typename T>
T* find_or_make(std::vector<std::unique_ptr<T>>& all, const RopeSpec& spec) {
  const auto same =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->spec() == spec; });
  if (same != all.end()) return same->get();
  return all.emplace_back(std::make_unique<T>(spec)).get();
}

}  // namespace

Cache::Cache(const CacheConfig& config, Policy policy, const FormatSpec& formats,
             const KvKernels& kernels)
    : config_(config), policy_(std::move(policy)), formats_(formats), kernels_(&kernels) {
  if (evicts()) needs_ = policy_.needs();
  n_steps_.resize(z(config.n_streams));
  restoring_.resize(z(config.n_streams));
  allowances_.resize(z(config.n_streams), INT32_MAX);
  cut_rows_.resize(z(config.n_streams));
  lost_.resize(z(config.n_streams));
  cell_masks_.resize(z(config.n_streams));
  slot_masks_.resize(z(config.n_streams));
  stream_bytes_.resize(z(config.n_streams));
  stream_changed_.resize(z(config.n_streams), 1);
  scratch_.resize(1);
}

Result<std::unique_ptr<Cache>> Cache::create(const CacheConfig& config, const KvKernels& kernels) {
  assert(config.n_streams > 0 && config.n_cells > 0);
  Result<Policy> policy = policy_of(config.options);
  if (!policy) return Error{policy.error()};
  Result<FormatSpec> formats = parse_format(config.options.format);
  if (!formats) return Error{formats.error()};
  if (config.options.math == MathMode::kBf16 && kernels.attend_page_bf16 == nullptr) {
    return Error{"--kv-math bf16 needs a CPU with AVX512_BF16; these are kernels of " +
                 std::string(kernels.name) + ": use --kv-math f32"};
  }
  auto selector = make_selector(config.options.select, config.options.select_params);
  if (!selector) return Error{selector.error()};
  std::unique_ptr<Cache> cache(
      new Cache(config, std::move(policy.value()), formats.value(), kernels));
  if (selector.value()->selects() && !config.dense) {
    cache->selection_ = std::make_unique<Selection>(
        std::move(selector.value()), config.n_streams,
        Selection::Always{cache->policy_.sinks, config.options.recent}, kernels);
  }
  return cache;
}

Result<void> Cache::set_geometry(int32_t layer, const LayerGeometry& geometry) {
  auto [it, inserted] = layers_.try_emplace(layer);
  Layer& l = it->second;
  if (inserted) {
    l.streams.resize(z(config_.n_streams));
    l.seen.resize(z(config_.n_streams));
  }
  if (l.geometry == geometry) return {};
  for (int32_t stream = 0; stream < config_.n_streams; ++stream) {
    LayerCache* rows = l.streams[z(stream)].get();
    if (rows == nullptr) continue;
    if (moves_rows() || l.geometry.width_k() != geometry.width_k() ||
        l.geometry.width_v() != geometry.width_v()) {
      return Error{"layer " + std::to_string(layer) + " is attended with two shapes of rows"};
    }
    stream_changed_[z(stream)] = 1;
    if (!rows->reshape(geometry, *kernels_, arena_)) {
      return out_of_memory(layer, stream, bytes().total());
    }
  }
  l.geometry = geometry;
  return {};
}

bool Cache::positions_in_cache() const {
  if (!evicts()) return false;
  const auto& asked = config_.options.positions;
  return asked ? *asked == PositionMode::kCache : policy_.positions_in_cache;
}

std::string Cache::rope_reader() const {
  if (positions_in_cache()) return "--kv-positions cache";
  const bool unrotates = formats_.uses(ColdStore::kResidual) || formats_.uses(ColdStore::kLatent);
  return moves_rows() && unrotates ? "--kv-format " + config_.options.format : "";
}

void Cache::set_rope(int32_t layer, const RopeSpec& spec) {
  if (rope_reader().empty()) return;
  Layer& l = layers_.at(layer);
  l.knows_rope = true;
  if (positions_in_cache()) l.rotator = find_or_make(rotators_, spec);
  if (codecs_of(layer).store == ColdStore::kCodes) return;
  l.rope = find_or_make(rope_tables_, spec);
  for (const auto& rows : l.streams) {
    if (rows != nullptr) rows->cold()->set_rope(l.rope);
  }
}

const RopeSpec* Cache::rope_spec(int32_t layer) const {
  const RopeTable* rope = layers_.at(layer).rope;
  return rope == nullptr ? nullptr : &rope->spec();
}

LayerCache* Cache::find(int32_t layer, int32_t stream) {
  return const_cast<LayerCache*>(std::as_const(*this).find(layer, stream));
}

const LayerCache* Cache::find(int32_t layer, int32_t stream) const {
  const auto it = layers_.find(layer);
  return it == layers_.end() ? nullptr : it->second.streams[z(stream)].get();
}

// Layers count by place among those of this cache.
int32_t Cache::index_of(int32_t layer) const {
  return static_cast<int32_t>(std::distance(layers_.begin(), layers_.find(layer)));
}

// Of demoted rows.
RowCodecs Cache::codecs_of(int32_t layer) const {
  if (!moves_rows()) return {};
  return formats_.of_layer(index_of(layer), static_cast<int32_t>(layers_.size()));
}

// Demoted rows lie in the order of their tokens where somebody reads them by rows: a choice of
// pages, queries turned run by run, the mass of former queries; and under a cap, which counts
// every byte.
bool Cache::needs_order() const {
  return selection_ != nullptr || positions_in_cache() || n_kept_queries() > 0 ||
         config_.options.budget_mb > 0;
}

std::unique_ptr<ColdTier> Cache::make_cold(int32_t layer, PageArena& arena) const {
  const Layer& l = layers_.at(layer);
  const RowCodecs codecs = codecs_of(layer);
  if (!codecs.demotes()) return nullptr;
  if (codecs.store == ColdStore::kCodes) {
    return std::make_unique<CodedTier>(l.geometry, codecs, *kernels_, arena, !needs_order());
  }
  const CacheOptions& options = config_.options;
  std::unique_ptr<ColdTier> tier;
  if (codecs.store == ColdStore::kResidual) {
    tier = std::make_unique<ResidualTier>(l.geometry, options.residual, *kernels_, arena);
  } else {
    tier = std::make_unique<LatentTier>(l.geometry, options.rank_percent, *kernels_, arena);
  }
  tier->set_rope(l.rope);
  return tier;
}

std::unique_ptr<KeyIndex> Cache::make_index(int32_t layer) const {
  if (selection_ == nullptr) return nullptr;
  return selection_->make_index(index_of(layer), static_cast<int32_t>(n_layers()));
}

LayerCache& Cache::layer_cache(int32_t layer, int32_t stream) {
  Layer& l = layers_.at(layer);
  std::unique_ptr<LayerCache>& rows = l.streams[z(stream)];
  if (rows == nullptr) {
    assert(l.geometry.n_kv_heads > 0);
    rows = std::make_unique<LayerCache>(moves_rows() ? Placement::kByArrival : Placement::kByCell,
                                        l.geometry, make_cold(layer, arena_), *kernels_, arena_,
                                        evicts() ? policy_.ranker->n_state() : 0);
    // A cap counts what must be there, and these need not be.
    const CacheOptions& options = config_.options;
    if (selection_ != nullptr && options.restored != 0 && options.budget_mb == 0 &&
        codecs_of(layer).store != ColdStore::kCodes) {
      rows->keep_restored(std::make_unique<RestoredRows>(l.geometry, options.restored, arena_));
    }
    rows->keep_index(make_index(layer));
  }
  return *rows;
}

Result<void> Cache::append(int32_t layer, int32_t stream, const TokenSpan& tokens,
                           const RowsView& rows, bool is_k) {
  assert(stream >= 0 && stream < config_.n_streams);
  const Stopwatch watch(times_.append);
  stream_changed_[z(stream)] = 1;
  restoring_[z(stream)] = false;
  if (lost_[z(stream)] && !tokens.positions.empty() && tokens.positions.front() == 0) {
    lost_[z(stream)] = false;
  }
  LayerCache& target = layer_cache(layer, stream);
  const bool ok = is_k ? target.append_k(tokens, rows) : target.append_v(tokens, rows);
  if (!ok) return out_of_memory(layer, stream, bytes().total());
  if (is_k && keeps_mass() && target.placement() == Placement::kByArrival) {
    StepMass& mass = layers_.at(layer).seen[z(stream)].mass;  // grows here as all metadata does
    mass.mass.reserve(z(target.slot_capacity()));
    if (target.cold() != nullptr) mass.places.reserve(z(target.slot_capacity() + kPlacesPadding));
  }
  if (needs_.rows) note_arrival(target, rows, is_k);
  return {};
}

Result<void> Cache::append_k(int32_t layer, int32_t stream, const TokenSpan& tokens,
                             const RowsView& rows) {
  return append(layer, stream, tokens, rows, true);
}

Result<void> Cache::append_v(int32_t layer, int32_t stream, const TokenSpan& tokens,
                             const RowsView& rows) {
  return append(layer, stream, tokens, rows, false);
}

void Cache::clear_stream(int32_t stream) {
  stream_changed_[z(stream)] = 1;
  for (auto& [id, layer] : layers_) {
    layer.streams[z(stream)].reset();
    layer.seen[z(stream)] = {};
  }
  if (selection_ != nullptr) selection_->forget(stream);
  n_steps_[z(stream)] = 0;
  allowances_[z(stream)] = INT32_MAX;
  cut_rows_[z(stream)] = 0;
  lost_[z(stream)] = false;
  restoring_[z(stream)] = false;
}

void Cache::lose_stream(int32_t stream) {
  clear_stream(stream);
  lost_[z(stream)] = true;
}

void Cache::clear() {
  for (int32_t s = 0; s < config_.n_streams; ++s) clear_stream(s);
}

Result<void> Cache::copy_layer(int32_t layer, int32_t from, int32_t to) {
  const auto it = layers_.find(layer);
  if (from == to || it == layers_.end()) return {};
  it->second.streams[z(to)].reset();
  stream_changed_[z(to)] = 1;
  const LayerCache* rows = it->second.streams[z(from)].get();
  if (rows != nullptr && !layer_cache(layer, to).copy_from(*rows)) {
    return out_of_memory(layer, to, bytes().total());
  }
  Seen& seen = it->second.seen[z(to)];
  seen = {};
  seen.prompt = it->second.seen[z(from)].prompt;
  seen.evicted = it->second.seen[z(from)].evicted;
  n_steps_[z(to)] = n_steps_[z(from)];
  return {};
}

Result<void> Cache::restore_row(int32_t layer, int32_t stream, int32_t cell, bool is_k,
                                const uint16_t* row) {
  assert(moves_rows());
  stream_changed_[z(stream)] = 1;
  if (!restoring_[z(stream)]) {
    clear_stream(stream);
    restoring_[z(stream)] = true;
  }
  if (row == nullptr) {
    if (is_k) ++layers_.at(layer).seen[z(stream)].evicted;
    return {};
  }
  if (layer_cache(layer, stream).restore_row(cell, is_k, row)) return {};
  clear_stream(stream);  // the next attention says what it lacks
  return out_of_memory(layer, stream, bytes().total());
}

CacheBytes Cache::bytes(int32_t stream) const {
  CacheBytes bytes;
  for (const auto& [id, layer] : layers_) {
    const LayerCache* rows = layer.streams[z(stream)].get();
    if (rows != nullptr) {
      bytes.rows += static_cast<int64_t>(rows->row_bytes());
      bytes.demoted += static_cast<int64_t>(rows->cold_bytes());
      bytes.metadata += static_cast<int64_t>(rows->metadata_bytes());
    }
    bytes.metadata += static_cast<int64_t>((layer.seen[z(stream)].mass.mass.capacity() +
                                            layer.seen[z(stream)].mass.places.capacity()) *
                                           sizeof(float));
  }
  return bytes;
}

CacheBytes Cache::bytes() const {
  CacheBytes bytes;
  for (int32_t s = 0; s < config_.n_streams; ++s) {
    const CacheBytes of_stream = this->bytes(s);
    bytes.rows += of_stream.rows;
    bytes.demoted += of_stream.demoted;
    bytes.metadata += of_stream.metadata;
  }
  bytes.workspace = shared_bytes();
  return bytes;
}

int64_t Cache::shared_bytes() const {
  int64_t bytes = workspace_bytes();
  for (const auto& rotator : rotators_) bytes += static_cast<int64_t>(rotator->bytes());
  for (const auto& table : rope_tables_) bytes += static_cast<int64_t>(table->bytes());
  return bytes;
}

// Of what give_back_workspace() gives back.
int64_t Cache::workspace_bytes() const {
  size_t bytes = workspace_.bytes() + (selection_ == nullptr ? 0 : selection_->bytes());
  for (const StepScratch& scratch : scratch_) bytes += scratch.bytes();
  for (const MaskView& mask : cell_masks_) bytes += mask.bytes();
  for (const MaskView& mask : slot_masks_) bytes += mask.bytes();
  return static_cast<int64_t>(bytes);
}

// Looks only at streams that changed: with many of them, each of which ends its step by itself, to
// look at all would take more than the steps.
void Cache::note_peak() {
  int64_t total = shared_bytes();
  for (int32_t s = 0; s < config_.n_streams; ++s) {
    if (stream_changed_[z(s)] != 0) stream_bytes_[z(s)] = bytes(s).total();
    stream_changed_[z(s)] = 0;
    total += stream_bytes_[z(s)];
  }
  assert(total == bytes().total());
  peak_bytes_ = std::max(peak_bytes_, total);
}

double Cache::live_tokens(int32_t stream) const {
  double sum = 0;
  int32_t n = 0;
  for (const auto& [id, layer] : layers_) {
    const LayerCache* rows = layer.streams[z(stream)].get();
    if (rows == nullptr) continue;
    sum += rows->n_slots();
    ++n;
  }
  return n == 0 ? 0 : sum / n;
}

int64_t Cache::evicted_rows(int32_t stream) const {
  int64_t sum = 0;
  for (const auto& [id, layer] : layers_) sum += layer.seen[z(stream)].evicted;
  return sum;
}

std::vector<int32_t> Cache::layer_ids() const {
  std::vector<int32_t> ids;
  for (const auto& [id, layer] : layers_) ids.push_back(id);
  return ids;
}

std::vector<int32_t> Cache::live_positions(int32_t stream, int32_t layer) const {
  const LayerCache* rows = find(layer, stream);
  if (rows == nullptr) return {};
  const auto positions = rows->positions();
  return {positions.begin(), positions.end()};
}

}  // namespace kvasir
