#include "cache/block_table.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "cache/scratch.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

// All three vectors hold as many blocks.
void BlockTable::reserve(size_t n_slots) {
  const auto capacity = static_cast<int64_t>(
      std::min({pool_.capacity() / shared_bytes_, blocks_.capacity(), free_.capacity()}));
  const size_t n = z(grown_blocks(capacity, static_cast<int64_t>(n_slots)));
  pool_.reserve(n * shared_bytes_);
  blocks_.reserve(n);
  free_.reserve(n);
}

BlockLoad BlockTable::load() const {
  if (shared_bytes_ == 0) return {};
  const size_t capacity =
      std::min({pool_.capacity() / shared_bytes_, blocks_.capacity(), free_.capacity()});
  return {n_blocks(), static_cast<int32_t>(pool_.size() / shared_bytes_),
          static_cast<int32_t>(capacity)};
}

void BlockTable::trim() {
  if (shared_bytes_ == 0) return;
  std::vector<std::byte> pool;
  pool.reserve(blocks_.size() * shared_bytes_);
  for (Block& block : blocks_) {
    const auto from = pool_.begin() + static_cast<ptrdiff_t>(z(block.index) * shared_bytes_);
    block.index = static_cast<int32_t>(pool.size() / shared_bytes_);
    pool.insert(pool.end(), from, from + static_cast<ptrdiff_t>(shared_bytes_));
  }
  pool_ = std::move(pool);
  blocks_.shrink_to_fit();
  give_back(free_);
  free_.reserve(blocks_.size());
}

std::byte* BlockTable::add(int32_t first) {
  if (shared_bytes_ == 0) return nullptr;
  int32_t index;
  if (free_.empty()) {
    index = static_cast<int32_t>(pool_.size() / shared_bytes_);
    reserve(z(index) + 1);
    pool_.resize(pool_.size() + shared_bytes_);
  } else {
    index = free_.back();
    free_.pop_back();
  }
  blocks_.push_back({first, index});
  return pool_.data() + z(index) * shared_bytes_;
}

const std::byte* BlockTable::find(int32_t slot, int32_t n_rows, int32_t& end) const {
  end = n_rows;
  if (shared_bytes_ == 0) return nullptr;
  const auto next =
      std::upper_bound(blocks_.begin(), blocks_.end(), slot,
                       [](int32_t value, const Block& block) { return value < block.first; });
  assert(next != blocks_.begin());
  if (next != blocks_.end()) end = next->first;
  return pool_.data() + z(std::prev(next)->index) * shared_bytes_;
}

void BlockTable::keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) {
  if (shared_bytes_ == 0) return;
  size_t kept = 0;
  auto survivor = survivors.begin();
  const auto place = [&] { return first + static_cast<int32_t>(survivor - survivors.begin()); };
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block block = blocks_[b];
    const bool last = b + 1 == blocks_.size();
    const bool starts_before = block.first < first;
    const int32_t at = starts_before ? block.first : place();
    while (survivor != survivors.end() && (last || *survivor - offset < blocks_[b + 1].first))
      ++survivor;
    if (starts_before || place() > at) {
      blocks_[kept++] = {at, block.index};
    } else {
      free_.push_back(block.index);
    }
  }
  blocks_.resize(kept);
}

void BlockTable::clear() {
  give_back(blocks_);
  give_back(pool_);
  give_back(free_);
}

size_t BlockTable::bytes() const {
  return blocks_.capacity() * sizeof(Block) + pool_.capacity() + free_.capacity() * sizeof(int32_t);
}

}  // namespace kvasir
