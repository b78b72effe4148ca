// Numbers from a seed, the same on every machine.
//
// The distributions of the standard library differ between libraries; this maps to ranges itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir::eval::agent {

/// A seed of its own for the part `name` of whatever `seed` makes.
uint64_t seed_of(uint64_t seed, std::string_view name);

class Random {
 public:
  explicit Random(uint64_t seed) : generator_(seed) {}

  /// A number in [0, bound). Requires: bound > 0.
  size_t below(size_t bound) { return static_cast<size_t>(generator_() % bound); }

  /// A number in [low, high].
  int32_t between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(below(static_cast<size_t>(high - low) + 1));
  }

  /// One of the table's entries. Requires: it has some.
  template <typename Table>
  const auto& pick(const Table& table) {
    return table[below(table.size())];
  }

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t left = values.size(); left > 1; --left) {
      std::swap(values[left - 1], values[below(left)]);
    }
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace kvasir::eval::agent
