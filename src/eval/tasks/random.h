// Random draws that are the same on every machine and in every library.
//
// The standard fixes the stream of std::mt19937_64 but not what its distributions and std::shuffle
// make of it, so the mapping to ranges is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir::eval {

class SeededRandom {
 public:
  /// Streams of different purposes (the id of a sample, say) are unrelated for the same seed.
  SeededRandom(uint64_t seed, std::string_view purpose);

  /// Uniform in [0, n). Requires: n > 0.
  uint64_t below(uint64_t n);

  /// Uniform in [0, 1).
  double share();

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<size_t>(below(i))]);
    }
  }

  /// `count` different numbers below n, ascending. Requires: count <= n.
  std::vector<size_t> distinct(size_t count, size_t n);

  /// `count` decimal digits, the first of them not 0.
  std::string digits(size_t count);

  /// `count` letters of `alphabet`.
  std::string letters(size_t count, std::string_view alphabet);

  /// A UUID of version 4 in lower case.
  std::string uuid();

 private:
  std::mt19937_64 generator_;
};

}  // namespace kvasir::eval
