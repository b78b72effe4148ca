#include "cache/coded_tier.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

#include "cache/scratch.h"
#include "format/f16_codec.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr int32_t kMostPages = 8;  // kernel pages in one allocation

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

CodedTier::Side CodedTier::make_side(const RowCodec* codec, int32_t head_dim, int32_t n_heads,
                                     size_t offset) {
  const RowCodec& c = codec == nullptr ? f16_codec() : *codec;
  const size_t shared = c.shared_bytes(head_dim);
  return {&c,     head_dim, c.row_bytes(head_dim),
          shared, offset,   BlockTable(c.block_rows(), shared * z(n_heads)),
          false,  {}};
}

CodedTier::CodedTier(const LayerGeometry& geometry, const RowCodecs& codecs,
                     const KvKernels& kernels, PageArena& arena, bool any_order)
    : geometry_(geometry),
      codecs_(codecs),
      arena_(&arena),
      k_(make_side(codecs.k, geometry.head_dim_k, geometry.n_kv_heads, 0)),
      v_(make_side(codecs.v, geometry.head_dim_v, geometry.n_kv_heads, 0)) {
  assert(codecs.demotes());
  any_order_ = any_order && k_.shared_bytes == 0 && v_.shared_bytes == 0;
  const size_t kernel_page = (k_.row_bytes + v_.row_bytes) * kPageSlots * z(geometry.n_kv_heads);
  page_slots_ = PageArena::thrifty_count(kernel_page, kMostPages) * kPageSlots;
  v_.offset = k_.row_bytes * z(page_slots_);
  head_bytes_ = (k_.row_bytes + v_.row_bytes) * z(page_slots_);
  page_bytes_ = head_bytes_ * z(geometry.n_kv_heads);
  const Packing* k = k_.codec->packing();
  const Packing* v = v_.codec->packing();
  attends_coded_ = k != nullptr && v != nullptr &&
                   kvasir::attends_coded(*k, geometry.head_dim_k, *v, geometry.head_dim_v);
  if (!attends_coded_ || kernels.attend_coded == nullptr) return;
  lay_in_tiles(k_, RowLayout::kKeyTile);
  lay_in_tiles(v_, RowLayout::kValueTile);
}

// Where the packing allows it. A tile takes the room of its rows.
void CodedTier::lay_in_tiles(Side& side, RowLayout layout) const {
  const Packing& packing = *side.codec->packing();
  side.in_tiles = has_tiles(packing, side.head_dim);
  side.tiles = {packing, side.head_dim, layout};
  assert(!side.in_tiles || side.tiles.bytes() == side.row_bytes * kPageSlots);
}

CodedTier::~CodedTier() { clear(); }

std::byte* CodedTier::row(const Side& side, int32_t head, int32_t slot) const {
  return pages_[z(slot / page_slots_)] + z(head) * head_bytes_ + side.offset +
         z(slot % page_slots_) * side.row_bytes;
}

std::byte* CodedTier::tile(const Side& side, int32_t head, int32_t slot) const {
  return row(side, head, slot / kPageSlots * kPageSlots);
}

bool CodedTier::reserve(int32_t n_rows) {
  const size_t n_pages = z((n_rows + page_slots_ - 1) / page_slots_);
  while (pages_.size() < n_pages) {
    std::byte* page = arena_->allocate(page_bytes_);
    if (page == nullptr) return false;
    pages_.push_back(page);
  }
  return true;
}

bool CodedTier::append(const DemotedRows& demoted, ParallelFor& /*parallel*/,
                       EncodeScratch& scratch) {
  const int32_t n = demoted.n;
  assert(n % codecs_.unit() == 0 && demoted.rows.geometry() == geometry_);
  if (!reserve(n_rows_ + n)) {
    release_from((n_rows_ + page_slots_ - 1) / page_slots_);
    return false;
  }
  encode(k_, demoted.rows, true, demoted.first, n, scratch);
  encode(v_, demoted.rows, false, demoted.first, n, scratch);
  if (any_order_) {
    const size_t n_wanted = z(n_rows_ + n);
    if (n_wanted > rows_of_.capacity()) rows_of_.reserve(n_wanted + n_wanted / 8 + kPageSlots);
    left_.reserve(rows_of_.capacity());
    rows_of_.resize(n_wanted);
    std::iota(rows_of_.begin() + n_rows_, rows_of_.end(), n_rows_);
  }
  n_rows_ += n;
  return true;
}

// Block by block: the rows of all heads as f32, then head by head into codes.
void CodedTier::encode(Side& side, const F16Tier& rows, bool is_k, int32_t first, int32_t n,
                       EncodeScratch& scratch) {
  const int32_t block = side.codec->block_rows();
  const int32_t width = geometry_.n_kv_heads * side.head_dim;
  scratch.row.resize(z(width));
  scratch.rows.resize(z(block) * z(width));
  scratch.codes.resize(z(block) * side.row_bytes);
  for (int32_t done = 0; done < n; done += block) {
    for (int32_t r = 0; r < block; ++r) {
      is_k ? rows.read_k(first + done + r, scratch.row.data())
           : rows.read_v(first + done + r, scratch.row.data());
      std::transform(scratch.row.begin(), scratch.row.end(),
                     scratch.rows.begin() + ptrdiff_t{r} * width,
                     [](uint16_t half) { return half_to_float(half); });
    }
    std::byte* shared = side.blocks.add(n_rows_ + done);
    for (int32_t h = 0; h < geometry_.n_kv_heads; ++h) {
      side.codec->encode(side.head_dim, scratch.rows.data() + ptrdiff_t{h} * side.head_dim, width,
                         scratch.codes.data(),
                         shared == nullptr ? nullptr : shared + z(h) * side.shared_bytes);
      for (int32_t r = 0; r < block; ++r) {
        const int32_t slot = n_rows_ + done + r;
        const std::byte* codes = scratch.codes.data() + z(r) * side.row_bytes;
        if (side.in_tiles) {
          side.tiles.put(codes, tile(side, h, slot), slot % kPageSlots);
        } else {
          std::memcpy(row(side, h, slot), codes, side.row_bytes);
        }
      }
    }
  }
}

// Slots that lie in one page and in one block.
void CodedTier::decode(const Side& side, int32_t head, int32_t first, int32_t n,
                       const std::byte* shared, float* out) const {
  if (!side.in_tiles) {
    side.codec->decode(side.head_dim, row(side, head, first), n, shared, out);
    return;
  }
  std::byte codes[2 * kMaxHeadDim];  // codes, and scales that are fewer
  assert(side.row_bytes <= sizeof(codes));
  for (int32_t slot = first; slot < first + n; ++slot, out += side.head_dim) {
    side.tiles.get(tile(side, head, slot), slot % kPageSlots, codes);
    side.codec->decode(side.head_dim, codes, 1, shared, out);
  }
}

// Runs of slots that lie in one page and in one block.
void CodedTier::read(const Side& side, int32_t head, int32_t first, int32_t n, float* out) const {
  assert(first >= 0 && first + n <= n_rows_);
  const int32_t end = first + n;
  for (int32_t slot = first; slot < end;) {
    int32_t block_end = 0;
    const std::byte* shared = side.blocks.find(slot, n_rows_, block_end);
    if (shared != nullptr) shared += z(head) * side.shared_bytes;
    const int32_t page_end = (slot / page_slots_ + 1) * page_slots_;
    const int32_t n_run = std::min({end, block_end, page_end}) - slot;
    decode(side, head, slot, n_run, shared, out);
    out += ptrdiff_t{n_run} * side.head_dim;
    slot += n_run;
  }
}

void CodedTier::read_k(int32_t head, int32_t first, int32_t n, const int32_t* /*positions*/,
                       float* out) const {
  read(k_, head, first, n, out);
}

void CodedTier::read_v(int32_t head, int32_t first, int32_t n, float* out) const {
  read(v_, head, first, n, out);
}

bool CodedTier::find_side(const Side& side, int32_t head, int32_t first, int32_t n,
                          CodedSide& found) const {
  if (side.in_tiles) {
    side.tiles.point(tile(side, head, first), first % kPageSlots, found);
  } else {
    found.packing = *side.codec->packing();
    found.head_dim = side.head_dim;
    found.layout = RowLayout::kRows;
    found.rows = row(side, head, first);
  }
  found.n_runs = 0;
  for (int32_t slot = first; slot < first + n;) {
    if (found.n_runs == kMostRuns) return false;
    int32_t end = 0;
    const std::byte* shared = side.blocks.find(slot, n_rows_, end);
    if (shared != nullptr) shared += z(head) * side.shared_bytes;
    slot = std::min(end, first + n);
    found.runs[z(found.n_runs++)] = {slot - first, shared};
  }
  return true;
}

bool CodedTier::find_page(int32_t head, int32_t first, int32_t n, CodedPage& page) const {
  assert(attends_coded_ && first >= 0 && first + n <= n_rows_);
  assert(first / page_slots_ == (first + n - 1) / page_slots_);
  const bool has_next = first + n < n_rows_;
  page.next_k = has_next ? page_start(k_, head, first + n) : nullptr;
  page.next_v = has_next ? page_start(v_, head, first + n) : nullptr;
  return find_side(k_, head, first, n, page.k) && find_side(v_, head, first, n, page.v);
}

// Rows of all heads, in pieces that lie side by side at both ends.
void CodedTier::move_run(const Side& side, int32_t from, int32_t to, int32_t n) {
  const int32_t room = side.in_tiles ? kPageSlots : page_slots_;
  while (n > 0) {
    const int32_t piece = std::min({n, room - from % room, room - to % room});
    for (int32_t h = 0; h < geometry_.n_kv_heads; ++h) {
      if (side.in_tiles) {
        side.tiles.move(tile(side, h, from), from % kPageSlots, tile(side, h, to), to % kPageSlots,
                        piece);
      } else {
        std::memmove(row(side, h, to), row(side, h, from), z(piece) * side.row_bytes);
      }
    }
    from += piece;
    to += piece;
    n -= piece;
  }
}

// Rows behind what stays go where those lay that leave.
void CodedTier::keep_in_place(int32_t first, std::span<const int32_t> survivors, int32_t offset) {
  const int32_t n_kept = first + static_cast<int32_t>(survivors.size());
  left_.clear();
  auto survivor = survivors.begin();
  for (int32_t slot = first; slot < n_rows_; ++slot) {
    const int32_t row = rows_of_[z(slot)];
    if (survivor != survivors.end() && *survivor - offset == slot) {
      rows_of_[z(first + (survivor++ - survivors.begin()))] = row;
    } else if (row < n_kept) {
      left_.push_back(row);
    }
  }
  rows_of_.resize(z(n_kept));
  for (int32_t& row : rows_of_) {
    if (row < n_kept) continue;
    move_run(k_, row, left_.back(), 1);
    move_run(v_, row, left_.back(), 1);
    row = left_.back();
    left_.pop_back();
  }
  assert(left_.empty());
  n_rows_ = n_kept;
  release_from((n_rows_ + page_slots_ - 1) / page_slots_);
}

void CodedTier::keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) {
  if (any_order_) return keep_in_place(first, survivors, offset);
  int32_t to = first;
  for (size_t begin = 0; begin < survivors.size();) {
    size_t end = begin + 1;
    while (end < survivors.size() && survivors[end] == survivors[end - 1] + 1) ++end;
    const int32_t from = survivors[begin] - offset;
    const auto n = static_cast<int32_t>(end - begin);
    assert(from >= to && from + n <= n_rows_);
    if (from != to) {
      move_run(k_, from, to, n);
      move_run(v_, from, to, n);
    }
    to += n;
    begin = end;
  }
  n_rows_ = to;
  k_.blocks.keep(first, survivors, offset);
  v_.blocks.keep(first, survivors, offset);
  release_from((n_rows_ + page_slots_ - 1) / page_slots_);
}

void CodedTier::release_from(int32_t first_page) {
  for (size_t p = z(first_page); p < pages_.size(); ++p) arena_->release(pages_[p], page_bytes_);
  if (z(first_page) < pages_.size()) pages_.resize(z(first_page));
}

void CodedTier::clear() {
  n_rows_ = 0;
  release_from(0);
  pages_.shrink_to_fit();
  give_back(rows_of_);
  give_back(left_);
  k_.blocks.clear();
  v_.blocks.clear();
}

bool CodedTier::copy_from(const ColdTier& source) {
  const auto& other = static_cast<const CodedTier&>(source);
  assert(geometry_ == other.geometry_ && codecs_ == other.codecs_);
  clear();
  if (!reserve(other.n_rows_)) {
    clear();
    return false;
  }
  for (size_t p = 0; p < pages_.size(); ++p) {
    std::memcpy(pages_[p], other.pages_[p], page_bytes_);
  }
  n_rows_ = other.n_rows_;
  assert(any_order_ == other.any_order_);
  rows_of_ = other.rows_of_;
  left_.reserve(rows_of_.capacity());
  k_.blocks = other.k_.blocks;
  v_.blocks = other.v_.blocks;
  return true;
}

void CodedTier::trim() {
  pages_.shrink_to_fit();
  rows_of_.shrink_to_fit();
  give_back(left_);
  left_.reserve(rows_of_.capacity());
  k_.blocks.trim();
  v_.blocks.trim();
}

void CodedTier::describe(LayerShape& shape) const {
  shape.cold_page = static_cast<int64_t>(PageArena::footprint(page_bytes_));
  shape.cold_page_slots = page_slots_;
  shape.unit = codecs_.unit();
  shape.k_blocks = k_.blocks.shape();
  shape.v_blocks = v_.blocks.shape();
}

void CodedTier::describe(LayerLoad& load) const {
  load.n_cold = n_rows_;
  load.cold_pages = static_cast<int32_t>(pages_.size());
  load.cold_table = static_cast<int32_t>(pages_.capacity());
  load.k_blocks = k_.blocks.load();
  load.v_blocks = v_.blocks.load();
}

size_t CodedTier::bytes() const {
  return pages_.size() * PageArena::footprint(page_bytes_) +
         pages_.capacity() * sizeof(std::byte*) + k_.blocks.bytes() + v_.blocks.bytes() +
         (rows_of_.capacity() + left_.capacity()) * sizeof(int32_t);
}

}  // namespace kvasir
