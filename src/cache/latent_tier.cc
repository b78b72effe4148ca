#include "cache/latent_tier.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "cache/format_spec.h"
#include "cache/scratch.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr int32_t kMostPageRows = 64;
constexpr int32_t kMostSampled = 2048;  // rows that axes are found from
constexpr int32_t kItemRows = 16;

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

LatentTier::LatentTier(const LayerGeometry& geometry, int32_t rank_percent,
                       const KvKernels& kernels, PageArena& arena)
    : geometry_(geometry),
      kernels_(&kernels),
      arena_(&arena),
      k_{geometry.width_k(), rank_of(geometry.width_k(), rank_percent), 0, {}},
      v_{geometry.width_v(),
         rank_of(geometry.width_v(), rank_percent),
         z(k_.rank) * sizeof(uint16_t),
         {}},
      row_bytes_(z(k_.rank + v_.rank) * sizeof(uint16_t)),
      page_rows_(PageArena::thrifty_count(row_bytes_, kMostPageRows)) {}

LatentTier::~LatentTier() { clear(); }

int32_t LatentTier::unit() const { return kTogetherBlock; }

std::byte* LatentTier::row(int32_t slot) const {
  return pages_[z(slot / page_rows_)] + z(slot % page_rows_) * row_bytes_;
}

bool LatentTier::reserve(int32_t n_rows) {
  while (int64_t{page_rows_} * static_cast<int64_t>(pages_.size()) < n_rows) {
    std::byte* page = arena_->allocate(page_bytes());
    if (page == nullptr) return false;
    pages_.push_back(page);
  }
  return true;
}

// From the rows that come first, evenly where they are many.
void LatentTier::find_axes(const DemotedRows& demoted, EncodeScratch& scratch) {
  const int32_t width = k_.width + v_.width;
  const int32_t n = std::min(demoted.n, kMostSampled);
  make_room(scratch.x, z(n) * z(width));
  for (int32_t i = 0; i < n; ++i) {
    const auto r = static_cast<int32_t>(int64_t{i} * demoted.n / n);
    load_unrotated(demoted.rows, demoted.first + r, demoted.positions[z(r)], rope_,
                   scratch.x.data() + ptrdiff_t{i} * width);
  }
  k_.axes = principal_axes(scratch.x.data(), n, width, k_.width, k_.rank);
  v_.axes = principal_axes(scratch.x.data() + k_.width, n, width, v_.width, v_.rank);
}

void LatentTier::encode(const Side& side, const float* x, std::byte* row) const {
  std::array<float, 64> some;  // coordinates
  for (int32_t first = 0; first < side.rank; first += 64) {
    const int32_t n = std::min(64, side.rank - first);
    kernels_->dot_rows(x, 1, side.axes.axes.data() + ptrdiff_t{first} * side.width, n, side.width,
                       some.data());
    for (int32_t i = 0; i < n; ++i) {
      const uint16_t half = float_to_half(some[z(i)]);
      std::memcpy(row + side.at + z(first + i) * sizeof(half), &half, sizeof(half));
    }
  }
}

bool LatentTier::append(const DemotedRows& demoted, ParallelFor& parallel, EncodeScratch& scratch) {
  assert(demoted.n % unit() == 0 && demoted.rows.geometry() == geometry_);
  if (!reserve(n_rows_ + demoted.n)) return false;
  if (rope_ != nullptr) rope_->cover(demoted.positions.back());
  if (k_.axes.axes.empty()) find_axes(demoted, scratch);
  const int32_t width = k_.width + v_.width;
  make_room(scratch.means, z(parallel.n_workers()) * z(width));
  parallel.run((demoted.n + kItemRows - 1) / kItemRows, [&](int64_t item, int32_t worker) {
    const auto first = static_cast<int32_t>(item) * kItemRows;
    float* x = scratch.means.data() + ptrdiff_t{worker} * width;
    for (int32_t r = first; r < std::min(first + kItemRows, demoted.n); ++r) {
      load_unrotated(demoted.rows, demoted.first + r, demoted.positions[z(r)], rope_, x);
      for (int32_t d = 0; d < k_.width; ++d) x[d] -= k_.axes.mean[z(d)];
      for (int32_t d = 0; d < v_.width; ++d) x[k_.width + d] -= v_.axes.mean[z(d)];
      encode(k_, x, row(n_rows_ + r));
      encode(v_, x + k_.width, row(n_rows_ + r));
    }
  });
  n_rows_ += demoted.n;
  return true;
}

void LatentTier::read(const Side& side, int32_t head, int32_t head_dim, int32_t slot,
                      float* out) const {
  const ptrdiff_t channel = ptrdiff_t{head} * head_dim;
  const std::byte* from = row(slot) + side.at;
  std::copy_n(side.axes.mean.data() + channel, head_dim, out);
  for (int32_t i = 0; i < side.rank; ++i) {
    uint16_t half;
    std::memcpy(&half, from + z(i) * sizeof(half), sizeof(half));
    const float coordinate = half_to_float(half);
    const float* axis = side.axes.axes.data() + ptrdiff_t{i} * side.width + channel;
    for (int32_t d = 0; d < head_dim; ++d) out[d] += coordinate * axis[d];
  }
}

void LatentTier::read_k(int32_t head, int32_t first, int32_t n, const int32_t* positions,
                        float* out) const {
  for (int32_t i = 0; i < n; ++i, out += geometry_.head_dim_k) {
    read(k_, head, geometry_.head_dim_k, first + i, out);
    if (rope_ != nullptr) kernels_->rotate_row(rope_->rotation(positions[i]), out);
  }
}

void LatentTier::read_v(int32_t head, int32_t first, int32_t n, float* out) const {
  for (int32_t i = 0; i < n; ++i, out += geometry_.head_dim_v) {
    read(v_, head, geometry_.head_dim_v, first + i, out);
  }
}

void LatentTier::keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) {
  int32_t to = first;
  for (const int32_t survivor : survivors) {
    const int32_t from = survivor - offset;
    assert(from >= to && from < n_rows_);
    if (from != to) std::memcpy(row(to), row(from), row_bytes_);
    ++to;
  }
  n_rows_ = to;
  const size_t n_pages = z((n_rows_ + page_rows_ - 1) / page_rows_);
  for (size_t p = n_pages; p < pages_.size(); ++p) {
    arena_->release(pages_[p], page_bytes());
  }
  if (n_pages < pages_.size()) pages_.resize(n_pages);
  if (n_rows_ == 0) clear();
}

void LatentTier::clear() {
  n_rows_ = 0;
  for (std::byte* page : pages_) arena_->release(page, page_bytes());
  give_back(pages_);
  for (Side* side : {&k_, &v_}) {
    give_back(side->axes.mean);
    give_back(side->axes.axes);
  }
}

bool LatentTier::copy_from(const ColdTier& source) {
  const auto& other = static_cast<const LatentTier&>(source);
  clear();
  if (!reserve(other.n_rows_)) {
    clear();
    return false;
  }
  for (size_t p = 0; p < pages_.size(); ++p) {
    std::memcpy(pages_[p], other.pages_[p], page_bytes());
  }
  n_rows_ = other.n_rows_;
  k_.axes = other.k_.axes;
  v_.axes = other.v_.axes;
  return true;
}

size_t LatentTier::bytes() const {
  size_t floats = 0;
  for (const Side* side : {&k_, &v_}) {
    floats += side->axes.mean.capacity() + side->axes.axes.capacity();
  }
  return pages_.size() * PageArena::footprint(page_bytes()) +
         pages_.capacity() * sizeof(std::byte*) + floats * sizeof(float);
}

// Of axes and means of both sides, once they are found.
int64_t LatentTier::axes_bytes() const {
  int64_t floats = 0;
  for (const Side* side : {&k_, &v_}) floats += int64_t{side->width} * (side->rank + 1);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t LatentTier::scratch_bytes(const LayerGeometry& geometry, int64_t n_rows,
                                  int32_t n_workers) {
  const int64_t width = geometry.width_k() + geometry.width_v();
  const int64_t floats = (std::min<int64_t>(n_rows, kMostSampled) + n_workers) * width;
  return (floats + floats / 8) * static_cast<int64_t>(sizeof(float)) +
         principal_axes_bytes(std::max(geometry.width_k(), geometry.width_v()));
}

void LatentTier::describe(LayerShape& shape) const {
  shape.cold_fixed = axes_bytes();
  shape.cold_page = static_cast<int64_t>(PageArena::footprint(page_bytes()));
  shape.cold_page_slots = page_rows_;
  shape.unit = unit();
}

void LatentTier::describe(LayerLoad& load) const {
  load.n_cold = n_rows_;
  load.cold_pages = static_cast<int32_t>(pages_.size());
  load.cold_table = static_cast<int32_t>(pages_.capacity());
}

}  // namespace kvasir
