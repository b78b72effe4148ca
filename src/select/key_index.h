// What a method that chooses in each layer keeps of the layer's keys: the interface, and how it is
// stored.
//
// An index holds items, each of so many consecutive tokens, numbered from the slot of the first on.
// An item is made once; only those behind a row that moved are made anew. Items lie in chunks, and
// a chunk holds what each KV head needs of its items. Knows no cache: keys are shown to it.
// Not thread-safe, but different items may be set on different threads where they lie in different
// chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "kernels/kernels.h"

namespace kvasir {

/// The queries of one token.
struct KeyQueries {
  const float* q = nullptr;  ///< [head_dim] of query head h at q + h * q_head, not yet scaled
  ptrdiff_t q_head = 0;
  int32_t n_heads = 0;
  float scale = 1;  ///< of q.k
};

/// Scratch of scoring; grows to what the largest index needs and then stays.
struct IndexScratch {
  std::vector<float> queries;   ///< what an index makes of the queries
  std::vector<uint8_t> tables;  ///< the same as bytes
  std::vector<SketchQuery> rows;
  std::vector<float> logits;    ///< [n_heads, n_items]
  std::vector<ScoreSums> sums;  ///< [n_heads] of parts of the items
  size_t bytes() const {
    return (queries.capacity() + logits.capacity()) * sizeof(float) + tables.capacity() +
           rows.capacity() * sizeof(SketchQuery) + sums.capacity() * sizeof(ScoreSums);
  }
};

class KeyIndex {
 public:
  static constexpr int32_t kChunkItems = kPageSlots;    ///< items that lie together
  static constexpr int32_t kMostDim = kMaxHeadDim / 2;  ///< channels of a head
  static constexpr int32_t kMostKeys = kLaneSlots;      ///< tokens of one call of set()

  /// @param item_tokens  tokens of an item, kMostKeys at most
  explicit KeyIndex(int32_t item_tokens) : item_tokens_(item_tokens) {}
  virtual ~KeyIndex() = default;

  int32_t item_tokens() const { return item_tokens_; }
  int32_t first_slot() const { return first_slot_; }
  int32_t n_items() const { return n_items_; }

  /// Items start at this slot, of rows of this shape; forgets what was known of others.
  /// Requires: head_dim <= kMostDim.
  void set_shape(int32_t first_slot, int32_t n_kv_heads, int32_t head_dim);
  /// Rows from `slot` on have moved or are gone: their items are forgotten.
  void forget_from(int32_t slot);
  /// Makes room for n items; those from the old n_items() on must be set before they are read.
  void grow(int32_t n);

  /// How many of the first tokens settle() is shown before the first items are set; 0: none.
  virtual int32_t n_settling() const { return 0; }
  /// Learns what all items of a head share. keys: [n, head_dim].
  virtual void settle(int32_t /*head*/, const float* /*keys*/, int32_t /*n*/) {}

  /// Makes items [item, item + n) of one head, which are of one chunk.
  /// keys: [n * item_tokens(), head_dim], as attention reads them. Requires: kMostKeys at most.
  virtual void set(int32_t item, int32_t n, int32_t head, const float* keys,
                   const KvKernels& kernels) = 0;

  /// A score of each item, over all query heads: the larger, the sooner it is read.
  /// scores: [n_items()].
  virtual void score(const KeyQueries& queries, const KvKernels& kernels, ParallelFor& parallel,
                     IndexScratch& scratch, std::span<float> scores) const = 0;
  /// The most that IndexScratch::bytes() is after a score of n_items.
  virtual int64_t most_scratch(int64_t n_items, int64_t n_heads, int64_t head_dim) const = 0;

  /// Allocated bytes, this object among them.
  virtual size_t bytes() const = 0;
  /// For a cap on bytes: of this object; of one chunk; chunks, and entries of their table.
  virtual int64_t fixed_bytes(int32_t n_kv_heads, int32_t head_dim) const = 0;
  int64_t chunk_bytes(int32_t n_kv_heads, int32_t head_dim) const;
  int32_t chunk_tokens() const { return item_tokens_ * kChunkItems; }
  int32_t n_chunks() const { return static_cast<int32_t>(chunks_.size()); }
  int32_t table_capacity() const { return static_cast<int32_t>(chunks_.capacity()); }
  /// Gives back what is allocated for nothing.
  void trim();
  /// Forgets everything and gives it back.
  virtual void clear();

 protected:
  /// Bytes that a chunk holds of one head.
  virtual size_t head_bytes(int32_t head_dim) const = 0;
  /// Allocated bytes of all chunks.
  size_t stored_bytes() const;
  /// Those of one chunk and head, from a cache line on.
  const std::byte* at(int32_t item, int32_t head) const;
  std::byte* at(int32_t item, int32_t head) {
    return const_cast<std::byte*>(static_cast<const KeyIndex*>(this)->at(item, head));
  }
  int32_t n_kv_heads() const { return n_kv_heads_; }
  int32_t head_dim() const { return head_dim_; }

 private:
  size_t head_stride(int32_t head_dim) const;

  int32_t item_tokens_;
  int32_t first_slot_ = 0, n_kv_heads_ = 0, head_dim_ = 0;
  int32_t n_items_ = 0;
  std::vector<std::vector<std::byte>> chunks_;
};

}  // namespace kvasir
