// Seeded random normal values, made fast: a table of normal values that random bits choose from.
//
// The same for the same seed on every machine and with any number of threads, since each block has
// its own stream of bits. Thread-safe after construction.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace kvasir::eval {

class NormalValues {
 public:
  explicit NormalValues(uint64_t seed) : seed_(seed), table_(size_t{1} << 16) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<float> normal;
    for (float& value : table_) value = normal(generator);
  }

  /// The values of block number `block`.
  void fill(uint64_t block, std::span<float> values) const {
    uint64_t state = mix(seed_ ^ mix(block + 1));
    for (size_t i = 0; i < values.size(); i += 4) {
      uint64_t bits = mix(state += 0x9E3779B97F4A7C15ULL);
      for (size_t j = i; j < values.size() && j < i + 4; ++j, bits >>= 16) {
        values[j] = table_[bits & 0xFFFF];
      }
    }
  }

 private:
  // SplitMix64 (Steele, Lea and Flood 2014).
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  uint64_t seed_;
  std::vector<float> table_;
};

}  // namespace kvasir::eval
