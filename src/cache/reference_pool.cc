#include "cache/reference_pool.h"

#include <cassert>
#include <cstring>

#include "cache/memory_cap.h"
#include "cache/scratch.h"

namespace kvasir {
namespace {

constexpr int32_t kMostPageRows = 64;

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

ReferencePool::ReferencePool(size_t row_bytes, PageArena& arena)
    : row_bytes_(row_bytes),
      page_rows_(PageArena::thrifty_count(row_bytes, kMostPageRows)),
      arena_(&arena) {}

ReferencePool::~ReferencePool() { clear(); }

bool ReferencePool::reserve(int32_t n) {
  const int64_t need = int64_t{size()} + std::max(0, n - n_free());
  if (need > static_cast<int64_t>(uses_.capacity())) {
    uses_.reserve(z(grown(static_cast<int64_t>(uses_.capacity()), need)));
    free_.reserve(uses_.capacity());
  }
  while (int64_t{page_rows_} * static_cast<int64_t>(pages_.size()) < need) {
    std::byte* page = arena_->allocate(page_bytes());
    if (page == nullptr) return false;
    pages_.push_back(page);
  }
  return true;
}

int32_t ReferencePool::add() {
  int32_t index = size();
  if (free_.empty()) {
    uses_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  assert(index / page_rows_ < static_cast<int32_t>(pages_.size()));
  uses_[z(index)] = {0, 1};
  return index;
}

std::byte* ReferencePool::at(int32_t index) const {
  return pages_[z(index / page_rows_)] + z(index % page_rows_) * row_bytes_;
}

void ReferencePool::release(int32_t index) {
  assert(uses_[z(index)].count > 0);
  --uses_[z(index)].count;
  free_if_idle(index);
}

void ReferencePool::disown(int32_t index) {
  assert(uses_[z(index)].owned);
  uses_[z(index)].owned = 0;
  free_if_idle(index);
}

void ReferencePool::free_if_idle(int32_t index) {
  const Use& use = uses_[z(index)];
  if (use.owned == 0 && use.count == 0) free_.push_back(index);
}

void ReferencePool::release_from(size_t first_page) {
  for (size_t p = first_page; p < pages_.size(); ++p) arena_->release(pages_[p], page_bytes());
  if (first_page < pages_.size()) pages_.resize(first_page);
}

std::vector<int32_t> ReferencePool::trim() {
  std::vector<int32_t> moved;
  if (!free_.empty()) {
    int32_t n = 0;
    moved.reserve(uses_.size());
    for (int32_t index = 0; index < size(); ++index) {
      const Use use = uses_[z(index)];
      if (use.owned == 0 && use.count == 0) {
        moved.push_back(-1);
        continue;
      }
      if (n != index) std::memcpy(at(n), at(index), row_bytes_);
      uses_[z(n)] = use;
      moved.push_back(n++);
    }
    uses_.resize(z(n));
  }
  release_from(z((int64_t{size()} + page_rows_ - 1) / page_rows_));
  pages_.shrink_to_fit();
  uses_.shrink_to_fit();
  give_back(free_);
  free_.reserve(uses_.capacity());
  return moved;
}

void ReferencePool::clear() {
  release_from(0);
  give_back(pages_);
  give_back(uses_);
  give_back(free_);
}

bool ReferencePool::copy_from(const ReferencePool& other) {
  clear();
  for (const std::byte* page : other.pages_) {
    std::byte* copy = arena_->allocate(page_bytes());
    if (copy == nullptr) {
      clear();
      return false;
    }
    std::memcpy(copy, page, page_bytes());
    pages_.push_back(copy);
  }
  uses_ = other.uses_;
  free_.reserve(uses_.capacity());
  free_ = other.free_;
  return true;
}

size_t ReferencePool::bytes() const {
  return pages_.size() * PageArena::footprint(page_bytes()) +
         pages_.capacity() * sizeof(std::byte*) + uses_.capacity() * sizeof(Use) +
         free_.capacity() * sizeof(int32_t);
}

}  // namespace kvasir
