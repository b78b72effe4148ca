// Sketches of keys: 2 bits a channel, to choose tokens by.
//
// A key is taken from the mean of the first 64 keys (which moves all scores of a head alike, and so
// no choice), turned (a Walsh-Hadamard transform, so that its channels are alike in size, as in
// QuaRot, arXiv 2404.00456) and rounded to -3, -1, 1, 3 half steps; the step is the best one for
// normal values, .9957 of their deviation (Max, "Quantizing for minimum distortion", 1960), kept as
// f16 for each token. 18 bytes for a key of 64 channels: 1/14 of its f16 row of K and V.
//
// A token's score is its largest probability over the query heads, each head's softmax over all
// items, compared as ln p = score - ln Z.
#pragma once

#include "select/key_index.h"

namespace kvasir {

class KeySketch final : public KeyIndex {
 public:
  static constexpr int32_t kSettling = kPageSlots;  ///< keys of the mean

  KeySketch() : KeyIndex(1) {}

  int32_t n_settling() const override { return kSettling; }
  void settle(int32_t head, const float* keys, int32_t n) override;
  void set(int32_t item, int32_t n, int32_t head, const float* keys,
           const KvKernels& kernels) override;
  void score(const KeyQueries& queries, const KvKernels& kernels, ParallelFor& parallel,
             IndexScratch& scratch, std::span<float> scores) const override;
  int64_t most_scratch(int64_t n_items, int64_t n_heads, int64_t head_dim) const override;
  int64_t fixed_bytes(int32_t n_kv_heads, int32_t head_dim) const override {
    return int64_t{sizeof(*this)} + int64_t{n_kv_heads} * head_dim * int64_t{sizeof(float)};
  }
  size_t bytes() const override;
  void clear() override;

 protected:
  /// Codes [n_code_bytes, kPageSlots] as kernels.h lays them, then steps [kPageSlots].
  size_t head_bytes(int32_t head_dim) const override;

 private:
  struct Scoring;  // one call of score()
  static int32_t n_code_bytes(int32_t head_dim) { return (head_dim + 3) / 4; }
  uint16_t* steps_at(int32_t item, int32_t head);
  void make_tables(const KeyQueries& queries, const KvKernels& kernels, Scoring& s) const;
  void score_chunk(const Scoring& s, int32_t chunk) const;
  static float log_sum(const Scoring& s, int32_t head, int32_t n_chunks);
  void take_best(const Scoring& s, int32_t first, int32_t end, float* scores) const;

  std::vector<float> means_;  // [n_kv_heads, head_dim]
};

}  // namespace kvasir
