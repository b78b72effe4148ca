#include "cache/rope.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace kvasir {
namespace {

constexpr int32_t kNoKey = std::numeric_limits<int32_t>::min();

}  // namespace

Rotator::Rotator(RopeSpec spec) : spec_(std::move(spec)) {}

const float* Rotator::prepare(int32_t delta) {
  const size_t n_pairs = spec_.frequencies.size();
  if (keys_.empty()) {
    keys_.assign(kSlots, kNoKey);
    turns_.resize(static_cast<size_t>(kSlots) * 2 * n_pairs);
  }
  const auto slot = static_cast<size_t>(static_cast<uint32_t>(delta) % kSlots);
  float* turn = turns_.data() + slot * 2 * n_pairs;
  if (keys_[slot] == delta) return turn;
  keys_[slot] = delta;
  for (size_t i = 0; i < n_pairs; ++i) {
    const double angle = spec_.frequencies[i] * delta;
    turn[i] = static_cast<float>(std::cos(angle));
    turn[n_pairs + i] = static_cast<float>(std::sin(angle));
  }
  return turn;
}

void Rotator::apply(const float* turn, const float* row, int32_t head_dim, float* out) const {
  const auto n_pairs = static_cast<ptrdiff_t>(spec_.frequencies.size());
  const float* cosines = turn;
  const float* sines = turn + n_pairs;
  std::copy_n(row, head_dim, out);
  const ptrdiff_t step = spec_.neox ? 1 : 2;
  const ptrdiff_t other = spec_.neox ? n_pairs : 1;
  for (ptrdiff_t i = 0; i < n_pairs; ++i) {
    const ptrdiff_t first = spec_.offset + i * step;
    const float x = row[first];
    const float y = row[first + other];
    out[first] = x * cosines[i] - y * sines[i];
    out[first + other] = x * sines[i] + y * cosines[i];
  }
}

}  // namespace kvasir
