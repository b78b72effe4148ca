#include "eval/tasks/random.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

#include "base/fnv1a.h"

namespace kvasir::eval {
namespace {

// FNV-1a of the purpose, started from the seed.
uint64_t mix(uint64_t seed, std::string_view purpose) {
  return fnv1a(purpose, kFnv1aStart ^ (seed * 0x9E3779B97F4A7C15ULL));
}

}  // namespace

SeededRandom::SeededRandom(uint64_t seed, std::string_view purpose)
    : generator_(mix(seed, purpose)) {}

uint64_t SeededRandom::below(uint64_t n) {
  assert(n > 0);
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const uint64_t limit = kMax - kMax % n;
  uint64_t value = generator_();
  while (value >= limit) value = generator_();
  return value % n;
}

double SeededRandom::share() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

std::vector<size_t> SeededRandom::distinct(size_t count, size_t n) {
  assert(count <= n);
  std::vector<size_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  for (size_t i = 0; i < count; ++i) {
    std::swap(numbers[i], numbers[i + static_cast<size_t>(below(n - i))]);
  }
  numbers.resize(count);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string SeededRandom::digits(size_t count) {
  std::string text = letters(count, "0123456789");
  if (count > 0) text[0] = static_cast<char>('1' + below(9));
  return text;
}

std::string SeededRandom::letters(size_t count, std::string_view alphabet) {
  std::string text;
  text.reserve(count);
  while (text.size() < count) text += alphabet[static_cast<size_t>(below(alphabet.size()))];
  return text;
}

std::string SeededRandom::uuid() {
  std::string text = letters(36, "0123456789abcdef");
  for (const size_t dash : {8U, 13U, 18U, 23U}) text[dash] = '-';
  text[14] = '4';
  text[19] = "89ab"[below(4)];
  return text;
}

}  // namespace kvasir::eval
