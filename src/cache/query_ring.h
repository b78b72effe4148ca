// The newest rotated queries of one stream and layer, kept until a step ends.
//
// Rankers that look at a prompt (CONF-KV's seed, SnapKV) want the attention of its last queries.
// They are kept here, so that the size of prefill chunks cannot matter, and one pass over the rows
// gives their attention mass when the first output row arrives. Where decoded queries are observed
// too, the ring goes on turning.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/scratch.h"

namespace kvasir {

class QueryRing {
 public:
  /// Keeps up to `capacity` queries of `width` = n_heads * head_dim floats.
  void configure(int32_t capacity, int32_t width) {
    if (capacity == capacity_ && width == width_) return;
    capacity_ = capacity;
    width_ = width;
    clear();
  }

  /// Room for the next query; the oldest leaves when the ring is full.
  float* push(int32_t position) {
    const auto index = static_cast<size_t>(n_pushed_ % capacity_);
    ++n_pushed_;
    if (index >= positions_.size()) {
      if (index == 1) {  // one query or all: what is allocated can be told in advance
        positions_.reserve(static_cast<size_t>(capacity_));
        rows_.reserve(static_cast<size_t>(capacity_) * static_cast<size_t>(width_));
      }
      positions_.resize(index + 1);
      rows_.resize((index + 1) * static_cast<size_t>(width_));
    }
    positions_[index] = position;
    return rows_.data() + index * static_cast<size_t>(width_);
  }

  /// Forgets all queries, and gives back what a prompt took: a decode step needs room for one.
  void clear() {
    n_pushed_ = 0;
    if (positions_.size() <= 1) return;
    give_back(positions_);
    give_back(rows_);
  }

  /// Where the oldest query lies: queries come as row(oldest) to row(size() - 1), then from row(0).
  int32_t oldest() const {
    return n_pushed_ > capacity_ ? static_cast<int32_t>(n_pushed_ % capacity_) : 0;
  }
  /// Where the newest lies. Requires: size() > 0.
  int32_t newest() const { return static_cast<int32_t>((n_pushed_ - 1) % capacity_); }
  int32_t size() const { return static_cast<int32_t>(std::min<int64_t>(n_pushed_, capacity_)); }
  const float* row(int32_t i) const { return rows_.data() + static_cast<ptrdiff_t>(i) * width_; }
  std::span<const int32_t> positions() const { return positions_; }
  /// Queries that memory is allocated for.
  int32_t n_allocated() const { return static_cast<int32_t>(positions_.capacity()); }
  size_t bytes() const {
    return rows_.capacity() * sizeof(float) + positions_.capacity() * sizeof(int32_t);
  }

 private:
  int32_t capacity_ = 0;
  int32_t width_ = 0;
  int64_t n_pushed_ = 0;
  std::vector<float> rows_;         // [positions_.size(), width_]
  std::vector<int32_t> positions_;  // grows to capacity_ while a prompt is read
};

}  // namespace kvasir
