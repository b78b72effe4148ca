#include "select/key_index.h"

#include <algorithm>
#include <cassert>

namespace kvasir {
namespace {

constexpr size_t kLine = 64;  // bytes of a cache line

size_t z(int64_t n) { return static_cast<size_t>(n); }

const std::byte* aligned(const std::vector<std::byte>& memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  return memory.data() + ((address + kLine - 1) / kLine * kLine - address);
}

}  // namespace

size_t KeyIndex::head_stride(int32_t head_dim) const {
  return (head_bytes(head_dim) + kLine - 1) / kLine * kLine;
}

int64_t KeyIndex::chunk_bytes(int32_t n_kv_heads, int32_t head_dim) const {
  return static_cast<int64_t>(z(n_kv_heads) * head_stride(head_dim) + kLine);
}

const std::byte* KeyIndex::at(int32_t item, int32_t head) const {
  return aligned(chunks_[z(item / kChunkItems)]) + z(head) * head_stride(head_dim_);
}

void KeyIndex::set_shape(int32_t first_slot, int32_t n_kv_heads, int32_t head_dim) {
  assert(head_dim <= kMostDim);
  if (n_kv_heads != n_kv_heads_ || head_dim != head_dim_) clear();
  if (first_slot != first_slot_) n_items_ = 0;
  first_slot_ = first_slot;
  n_kv_heads_ = n_kv_heads;
  head_dim_ = head_dim;
}

void KeyIndex::forget_from(int32_t slot) {
  n_items_ = std::min(n_items_, std::max(0, slot - first_slot_) / item_tokens_);
}

void KeyIndex::grow(int32_t n) {
  if (n <= n_items_) return;
  n_items_ = n;
  const size_t n_chunks = z((n + kChunkItems - 1) / kChunkItems);
  while (chunks_.size() < n_chunks) {
    chunks_.emplace_back(z(chunk_bytes(n_kv_heads_, head_dim_)));
  }
}

size_t KeyIndex::stored_bytes() const {
  size_t n = chunks_.capacity() * sizeof(std::vector<std::byte>);
  for (const auto& chunk : chunks_) n += chunk.capacity();
  return n;
}

void KeyIndex::trim() {
  chunks_.resize(z((n_items_ + kChunkItems - 1) / kChunkItems));
  chunks_.shrink_to_fit();
}

void KeyIndex::clear() {
  n_items_ = 0;
  trim();
}

}  // namespace kvasir
