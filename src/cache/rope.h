// Rotary position embedding as the cache needs it: turning a query that was rotated for one
// position into the same query at another (RoFormer, arXiv 2104.09864, eq. 15).
//
// With --kv-positions cache a token's position is its slot. K rows keep the rotation they arrived
// with; instead the query is turned by the number of tokens evicted between the row and the query.
// YaRN, frequency factors and linear scaling only change the angular frequencies, which stay linear
// in the position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvasir {

/// How one layer rotates its rows.
struct RopeSpec {
  /// Radians per position of each pair; empty: rows are not rotated.
  std::vector<double> frequencies;
  bool neox = false;   ///< pair i is (i, i + n) if true, else (2 i, 2 i + 1); n pairs
  int32_t offset = 0;  ///< first rotated channel
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

/// Turns rows by whole numbers of positions; remembers recent turns, since layers of a step ask for
/// the same ones. Not thread-safe: prepare() on one thread, then apply() on any.
class Rotator {
 public:
  explicit Rotator(RopeSpec spec);

  const RopeSpec& spec() const { return spec_; }
  bool rotates() const { return !spec_.frequencies.empty(); }

  /// Cosines and sines for a turn by `delta` positions: [n_pairs] cos, then [n_pairs] sin. The
  /// pointer stays valid until kSlots further turns were prepared.
  const float* prepare(int32_t delta);

  /// Writes `row`, turned, to `out`. Both [head_dim] f32; may not overlap.
  void apply(const float* turn, const float* row, int32_t head_dim, float* out) const;

  /// The most that one of rows of `head_dim` channels takes.
  static constexpr int64_t most_bytes(int32_t head_dim) {
    return kSlots * (int64_t{head_dim} * static_cast<int64_t>(sizeof(float)) +
                     static_cast<int64_t>(sizeof(int32_t)));
  }
  size_t bytes() const {
    return turns_.capacity() * sizeof(float) + keys_.capacity() * sizeof(int32_t);
  }

 private:
  static constexpr int32_t kSlots = 1024;
  RopeSpec spec_;
  std::vector<int32_t> keys_;  // [kSlots]
  std::vector<float> turns_;   // [kSlots, 2 n_pairs]
};

}  // namespace kvasir
