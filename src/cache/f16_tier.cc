#include "cache/f16_tier.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace kvasir {

F16Tier::F16Tier(const LayerGeometry& geometry, const KvKernels& kernels, PageArena& arena)
    : geometry_(geometry), kernels_(&kernels), arena_(&arena) {
  assert(geometry.n_kv_heads > 0 && geometry.head_dim_k > 0 && geometry.head_dim_v > 0);
}

F16Tier::F16Tier(F16Tier&& other) noexcept
    : geometry_(other.geometry_),
      kernels_(other.kernels_),
      arena_(other.arena_),
      pages_(std::exchange(other.pages_, {})),
      spare_(std::exchange(other.spare_, nullptr)),
      n_allocated_(std::exchange(other.n_allocated_, 0)) {}

F16Tier::~F16Tier() { clear(); }

uint16_t* F16Tier::k_head(std::byte* page, int32_t head) const {
  return reinterpret_cast<uint16_t*>(page) + F16Page::k_offset(geometry_, head);
}

uint16_t* F16Tier::v_head(std::byte* page, int32_t head) const {
  return reinterpret_cast<uint16_t*>(page) + F16Page::v_offset(geometry_, head);
}

const uint16_t* F16Tier::k(int32_t page, int32_t head) const {
  assert(has_page(page));
  return k_head(pages_[static_cast<size_t>(page)], head);
}

const uint16_t* F16Tier::v(int32_t page, int32_t head) const {
  assert(has_page(page));
  return v_head(pages_[static_cast<size_t>(page)], head);
}

std::byte* F16Tier::page_at(int32_t slot) {
  const auto page = static_cast<size_t>(slot / kPageSlots);
  assert(page < pages_.size() && pages_[page] != nullptr);
  return pages_[page];
}

bool F16Tier::reserve(int32_t first, int32_t n) {
  assert(first >= 0 && n >= 0);
  if (n == 0) return true;
  const auto last_page = static_cast<size_t>((first + n - 1) / kPageSlots);
  if (pages_.size() <= last_page) pages_.resize(last_page + 1, nullptr);
  for (auto p = static_cast<size_t>(first / kPageSlots); p <= last_page; ++p) {
    if (pages_[p] != nullptr) continue;
    if (spare_ != nullptr) {
      pages_[p] = std::exchange(spare_, nullptr);
      continue;
    }
    pages_[p] = arena_->allocate(F16Page::bytes(geometry_));
    if (pages_[p] == nullptr) return false;
    ++n_allocated_;
  }
  return true;
}

// Calls f(page, first slot in it, tokens, first of their rows) for each page of a run of slots.
template <typename PageFn>
void F16Tier::for_pages(int32_t first, const RowsView& rows, PageFn f) {
  for (int32_t done = 0; done < rows.n_rows;) {
    const int32_t in_page = (first + done) % kPageSlots;
    const int32_t n = std::min(rows.n_rows - done, kPageSlots - in_page);
    f(page_at(first + done), in_page, n, rows.data + done * rows.stride);
    done += n;
  }
}

void F16Tier::store_k(int32_t first, const RowsView& rows) {
  const int32_t d_k = geometry_.head_dim_k;
  for_pages(first, rows, [&](std::byte* page, int32_t slot, int32_t n, const float* data) {
    for (int32_t h = 0; h < geometry_.n_kv_heads; ++h) {
      kernels_->store_k(k_head(page, h), d_k, slot, n, data + ptrdiff_t{h} * d_k, rows.stride);
    }
  });
}

void F16Tier::store_v(int32_t first, const RowsView& rows) {
  const int32_t d_v = geometry_.head_dim_v;
  for_pages(first, rows, [&](std::byte* page, int32_t slot, int32_t n, const float* data) {
    for (int32_t h = 0; h < geometry_.n_kv_heads; ++h) {
      kernels_->store_v(v_head(page, h), d_v, slot, n, data + ptrdiff_t{h} * d_v, rows.stride);
    }
  });
}

void F16Tier::read_head(int32_t slot, int32_t head, bool is_k, uint16_t* row) const {
  const int32_t page = slot / kPageSlots;
  const int32_t dim = is_k ? geometry_.head_dim_k : geometry_.head_dim_v;
  if (!has_page(page)) {
    std::fill_n(row, dim, uint16_t{0});
  } else if (is_k) {
    const uint16_t* from = k(page, head);
    for (int32_t d = 0; d < dim; ++d) row[d] = from[F16Page::k_index(dim, slot % kPageSlots, d)];
  } else {
    std::copy_n(v(page, head) + ptrdiff_t{slot % kPageSlots} * dim, dim, row);
  }
}

void F16Tier::read_k(int32_t slot, uint16_t* row) const {
  for (int32_t h = 0; h < geometry_.n_kv_heads; ++h, row += geometry_.head_dim_k) {
    read_head(slot, h, true, row);
  }
}

void F16Tier::read_v(int32_t slot, uint16_t* row) const {
  for (int32_t h = 0; h < geometry_.n_kv_heads; ++h, row += geometry_.head_dim_v) {
    read_head(slot, h, false, row);
  }
}

void F16Tier::write_k(int32_t slot, const uint16_t* row) {
  std::byte* page = page_at(slot);
  const int32_t d_k = geometry_.head_dim_k;
  for (int32_t h = 0; h < geometry_.n_kv_heads; ++h) {
    uint16_t* head = k_head(page, h);
    for (int32_t d = 0; d < d_k; ++d) head[F16Page::k_index(d_k, slot % kPageSlots, d)] = *row++;
  }
}

void F16Tier::write_v(int32_t slot, const uint16_t* row) {
  std::byte* page = page_at(slot);
  const int32_t d_v = geometry_.head_dim_v;
  for (int32_t h = 0; h < geometry_.n_kv_heads; ++h, row += d_v) {
    std::copy_n(row, d_v, v_head(page, h) + ptrdiff_t{slot % kPageSlots} * d_v);
  }
}

void F16Tier::move_row(int32_t from, int32_t to) {
  std::byte* source = page_at(from);
  std::byte* target = page_at(to);
  const int32_t d_k = geometry_.head_dim_k;
  const int32_t d_v = geometry_.head_dim_v;
  for (int32_t h = 0; h < geometry_.n_kv_heads; ++h) {
    const uint16_t* k_from = k_head(source, h) + F16Page::k_index(d_k, from % kPageSlots, 0);
    uint16_t* k_to = k_head(target, h) + F16Page::k_index(d_k, to % kPageSlots, 0);
    for (ptrdiff_t d = 0; d < ptrdiff_t{d_k} * kLaneSlots; d += kLaneSlots) k_to[d] = k_from[d];
    std::memcpy(v_head(target, h) + ptrdiff_t{to % kPageSlots} * d_v,
                v_head(source, h) + ptrdiff_t{from % kPageSlots} * d_v,
                static_cast<size_t>(d_v) * sizeof(uint16_t));
  }
}

void F16Tier::keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) {
  int32_t to = first;
  for (const int32_t survivor : survivors) {
    const int32_t from = survivor - offset;
    assert(from >= to);
    if (from != to) move_row(from, to);
    ++to;
  }
  release_from((to + kPageSlots - 1) / kPageSlots);
}

void F16Tier::release_from(int32_t first_page) {
  for (auto p = static_cast<size_t>(first_page); p < pages_.size(); ++p) {
    if (pages_[p] == nullptr) continue;
    if (spare_ == nullptr) {
      spare_ = pages_[p];
    } else {
      arena_->release(pages_[p], F16Page::bytes(geometry_));
      --n_allocated_;
    }
  }
  if (static_cast<size_t>(first_page) < pages_.size()) {
    pages_.resize(static_cast<size_t>(first_page));
  }
}

void F16Tier::swap(F16Tier& other) noexcept {
  std::swap(geometry_, other.geometry_);
  std::swap(kernels_, other.kernels_);
  std::swap(arena_, other.arena_);
  std::swap(pages_, other.pages_);
  std::swap(spare_, other.spare_);
  std::swap(n_allocated_, other.n_allocated_);
}

void F16Tier::trim() {
  if (spare_ != nullptr) {
    arena_->release(std::exchange(spare_, nullptr), F16Page::bytes(geometry_));
    --n_allocated_;
  }
  pages_.shrink_to_fit();
}

void F16Tier::clear() {
  release_from(0);
  trim();
  assert(n_allocated_ == 0);
}

bool F16Tier::copy_from(const F16Tier& other) {
  assert(geometry_ == other.geometry_);
  clear();
  for (int32_t p = 0; p < other.n_pages(); ++p) {
    if (!other.has_page(p)) continue;
    if (!reserve(p * kPageSlots, 1)) return false;
    std::memcpy(pages_[static_cast<size_t>(p)], other.pages_[static_cast<size_t>(p)],
                F16Page::bytes(geometry_));
  }
  return true;
}

size_t F16Tier::bytes() const {
  return n_allocated_ * PageArena::footprint(F16Page::bytes(geometry_)) +
         pages_.capacity() * sizeof(std::byte*);
}

}  // namespace kvasir
