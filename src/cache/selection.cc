#include "cache/selection.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "cache/attention_call.h"
#include "cache/scratch.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

void read_keys(const LayerCache& rows, bool cold, int32_t first, int32_t n, int32_t head,
               float* out) {
  const int32_t head_dim = rows.rows().geometry().head_dim_k;
  if (cold) {
    rows.read_cold_k(head, first, n, out);
    if (!attention::turns(rows)) return;
    for (int32_t i = 0; i < n; ++i) turn_row(out + ptrdiff_t{i} * head_dim, head_dim);
    return;
  }
  for (int32_t slot = first; slot < first + n; ++slot, out += head_dim) {
    const uint16_t* k =
        rows.rows().k(slot / kPageSlots, head) + F16Page::k_index(head_dim, slot % kPageSlots, 0);
    for (int32_t d = 0; d < head_dim; ++d) out[d] = half_to_float(k[ptrdiff_t{d} * kLaneSlots]);
  }
}

Selection::Selection(std::unique_ptr<Selector> selector, int32_t n_streams, const Always& always,
                     const KvKernels& kernels)
    : selector_(std::move(selector)),
      always_(always),
      kernels_(&kernels),
      sets_(z(n_streams)),
      plans_(z(n_streams)),
      masks_(z(n_streams)) {}

Result<void> Selection::begin(const AttendArgs& args, const LayerGeometry& geometry, int32_t index,
                              int32_t n_layers) {
  role_ = Role::kDense;
  if (auto ok = selector_->check_layers(n_layers); !ok) return ok;
  if (args.n_queries != 1) return {};
  role_ = selector_->role(index, n_layers);
  if (role_ != Role::kChoose) return {};
  const std::string refused =
      "--kv-select " + std::string(selector_->name()) + " is not available for ";
  if (args.max_bias > 0) return Error{refused + "a model with ALiBi: use omnikv or dense"};
  if (geometry.head_dim_k > KeyIndex::kMostDim) {
    return Error{refused + "keys of " + std::to_string(geometry.head_dim_k) +
                 " channels, allowed are up to " + std::to_string(KeyIndex::kMostDim) +
                 ": use omnikv or dense"};
  }
  return {};
}

// Demoted rows where the layer demotes; else what lies between the sinks and the newest. Pages of
// f16 rows start at a group of the tier, so that they are read in place.
Selection::Range Selection::candidates(const LayerCache& rows) const {
  const int32_t page = selector_->page_tokens();
  const ReadOrder order = rows.read_order();
  if (rows.cold() != nullptr) return {order.n_head, order.n_cold / page * page};
  const int32_t first = (always_.sinks + page - 1) / page * page;
  return {first, std::max(0, order.n_slots - always_.recent - first) / page * page};
}

void Selection::settle(const LayerCache& rows, const Range& range, KeyIndex& index) {
  const int32_t n = std::min(index.n_settling(), range.n);
  if (n == 0) return;
  const LayerGeometry& g = rows.rows().geometry();
  const bool cold = rows.cold() != nullptr;
  make_room(settling_, z(n) * z(g.head_dim_k));
  for (int32_t head = 0; head < g.n_kv_heads; ++head) {
    read_keys(rows, cold, cold ? 0 : range.first, n, head, settling_.data());
    index.settle(head, settling_.data(), n);
  }
}

void Selection::update_index(LayerCache& rows, const Range& range, ParallelFor& parallel) {
  const LayerGeometry& g = rows.rows().geometry();
  KeyIndex& index = *rows.index();
  index.set_shape(range.first, g.n_kv_heads, g.head_dim_k);
  index.forget_from(range.first + range.n);
  // What items share is of the first tokens that are there, whatever was there before.
  if (index.n_items() < index.n_settling()) index.forget_from(range.first);
  const int32_t from = index.n_items();
  const int32_t n_items = range.n / index.item_tokens();
  if (from == n_items) return;
  const bool cold = rows.cold() != nullptr;
  const int32_t first_row = cold ? 0 : range.first;
  if (from == 0) settle(rows, range, index);
  index.grow(n_items);
  constexpr int32_t kChunk = KeyIndex::kChunkItems;
  const int32_t per_call = KeyIndex::kMostKeys / index.item_tokens();
  const int32_t first_chunk = from / kChunk;
  parallel.run((n_items - 1) / kChunk + 1 - first_chunk, [&](int64_t i, int32_t /*worker*/) {
    const int32_t chunk = (first_chunk + static_cast<int32_t>(i)) * kChunk;
    const int32_t end = std::min(n_items, chunk + kChunk);
    std::array<float, size_t{KeyIndex::kMostKeys} * KeyIndex::kMostDim> keys;
    for (int32_t item = std::max(from, chunk); item < end;) {
      const int32_t n = std::min(per_call - item % per_call, end - item);
      for (int32_t head = 0; head < g.n_kv_heads; ++head) {
        read_keys(rows, cold, first_row + item * index.item_tokens(), n * index.item_tokens(), head,
                  keys.data());
        index.set(item, n, head, keys.data(), *kernels_);
      }
      item += n;
    }
  });
}

void Selection::choose(const SelectInput& input, const LayerCache& rows, const Range& range,
                       int64_t epoch, ReadSet& set, ParallelFor& parallel) {
  selector_->choose(input, *kernels_, parallel, scratch_, chosen_);
  const auto positions = rows.positions().subspan(z(range.first), z(range.n));
  set.epoch = epoch;
  set.version = ++n_choices_;
  set.first = positions.front();
  set.last = positions.back() + 1;
  set.positions.clear();
  for (const int32_t i : chosen_) set.positions.push_back(positions[z(i)]);
}

bool Selection::attends_coded(const LayerCache& rows) const {
  return rows.cold() != nullptr && rows.cold()->attends_coded() &&
         kernels_->attend_coded != nullptr;
}

// Says which of the chosen rows are kept from former steps. Attention reads each of them once, for
// each head, and fills in the others.
void Selection::plan_restored(LayerCache& rows, const ReadPlan& plan) {
  RestoredRows* restored = rows.restored();
  if (restored == nullptr) return;
  const int64_t n_found = restored->n_found();
  restored->plan(plan.listed(), rows.n_cold());
  rows_restored_ += static_cast<int64_t>(plan.listed().size());
  rows_found_ += restored->n_found() - n_found;
}

bool Selection::narrow(const AttendArgs& args, int32_t i, const CellMask& mask, LayerCache& rows,
                       ParallelFor& parallel, StreamRows& view) {
  if (args.n_queries != 1) return false;
  const size_t stream = z(args.first_stream + i);
  ReadSet& set = sets_[stream];
  rows_live_ += rows.n_slots();
  rows_read_ += rows.n_slots();
  view.keep_scores = role_ == Role::kObserve;
  if (role_ == Role::kDense || role_ == Role::kObserve) {
    set.epoch = -1;
    return false;
  }
  if (role_ == Role::kChoose) {
    set.epoch = -1;
    const Range range = candidates(rows);
    if (selector_->n_chosen(range.n) < range.n) {
      update_index(rows, range, parallel);
      SelectInput input;
      input.n = range.n;
      input.n_heads = args.n_heads;
      input.index = rows.index();
      input.queries = {args.q + i * args.q_stream, args.q_head, args.n_heads, args.scale};
      choose(input, rows, range, args.epoch, set, parallel);
    }
  }
  if (set.epoch != args.epoch) return false;
  ReadPlan& plan = plans_[stream];
  plan.build(rows, set, attends_coded(rows));
  plan_restored(rows, plan);
  rows_read_ += plan.n_read() - rows.n_slots();
  masks_[stream].set_gathered(mask, plan.cells(), args.epoch);
  view.plan = &plan;
  view.mask = &masks_[stream];
  return true;
}

void Selection::finish(const AttendArgs& args, std::span<const StreamRows> streams,
                       const AttentionWorkspace& workspace, ParallelFor& parallel) {
  if (role_ != Role::kObserve || args.n_queries != 1) return;
  for (int32_t i = 0; i < args.n_streams; ++i) {
    const LayerCache& rows = *streams[z(i)].rows;
    const Range range = candidates(rows);
    if (selector_->n_chosen(range.n) >= range.n) continue;
    // Candidates are of one tier, so their places are consecutive.
    const int32_t place = streams[z(i)].order.place_of(range.first);
    SelectInput input;
    input.n = range.n;
    input.n_heads = args.n_heads;
    input.logits_head = workspace.n_places;
    input.logits =
        workspace.scores.data() + ptrdiff_t{i} * args.n_heads * input.logits_head + place;
    choose(input, rows, range, args.epoch, sets_[z(args.first_stream + i)], parallel);
  }
}

size_t Selection::bytes() const {
  size_t n = scratch_.bytes() + chosen_.capacity() * sizeof(int32_t) +
             settling_.capacity() * sizeof(float);
  for (const ReadSet& set : sets_) n += set.positions.capacity() * sizeof(int32_t);
  for (const ReadPlan& plan : plans_) n += plan.bytes();
  for (const MaskView& mask : masks_) n += mask.bytes();
  return n;
}

// Vectors that are filled one by one grow to twice their size.
int64_t Selection::most_bytes(int64_t n_streams, int64_t n_slots, int32_t n_heads,
                              int32_t head_dim) const {
  constexpr int64_t kNumber = 4;  // bytes of a float, a position, a slot
  const int64_t n_chosen = 2 * n_slots;
  const int64_t places = ReadPlan::most_pages(n_slots) * kPageSlots;
  const int64_t mask = places * (kNumber + int64_t{sizeof(uint16_t)}) + places / kPageSlots;
  const int64_t of_stream = n_chosen * kNumber + ReadPlan::most_bytes(n_slots) + mask + mask / 8;
  const std::unique_ptr<KeyIndex> index = selector_->make_index();
  const int64_t n_items = index == nullptr ? n_slots : n_slots / index->item_tokens();
  int64_t scratch = 0;
  if (index != nullptr) {
    scratch = index->most_scratch(n_items, n_heads, head_dim) +
              2 * int64_t{index->n_settling()} * head_dim * kNumber;
  }
  const int64_t shared = 2 * n_slots * kNumber + n_chosen * kNumber +  // scores, choice
                         2 * n_items * kNumber + n_heads * kNumber + scratch;
  return n_streams * of_stream + shared;
}

void Selection::give_back() {
  for (ReadSet& set : sets_) set = {};
  for (ReadPlan& plan : plans_) plan = {};
  for (MaskView& mask : masks_) mask = {};
  scratch_ = {};
  kvasir::give_back(chosen_);
  kvasir::give_back(settling_);
}

}  // namespace kvasir
