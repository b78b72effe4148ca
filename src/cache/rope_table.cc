#include "cache/rope_table.h"

#include <cassert>
#include <cmath>
#include <utility>

#include "cache/memory_cap.h"

namespace kvasir {

RopeTable::RopeTable(RopeSpec spec) : spec_(std::move(spec)) {
  low_.reserve(2 * spec_.frequencies.size() * kLow);
  for (int32_t i = 0; i < kLow; ++i) append(low_, i);
}

void RopeTable::append(std::vector<float>& table, int64_t position) const {
  for (const double f : spec_.frequencies) {
    table.push_back(static_cast<float>(std::cos(f * static_cast<double>(position))));
  }
  for (const double f : spec_.frequencies) {
    table.push_back(static_cast<float>(std::sin(f * static_cast<double>(position))));
  }
}

void RopeTable::cover(int32_t position) {
  const size_t width = 2 * spec_.frequencies.size();
  if (width == 0) return;
  const int64_t n_high = position / kLow + 1;
  if (n_high > static_cast<int64_t>(high_.capacity() / width)) {
    const auto capacity = static_cast<int64_t>(high_.capacity() / width);
    high_.reserve(static_cast<size_t>(grown_blocks(capacity, n_high)) * width);
  }
  for (auto n = static_cast<int64_t>(high_.size() / width); n < n_high; ++n) {
    append(high_, n * kLow);
  }
}

// When the table grows, the old one is there for a moment too.
int64_t RopeTable::most_bytes(int32_t head_dim, int64_t n_positions) {
  const int64_t n_high = grown_blocks(0, n_positions / kLow + 1);
  return (kLow + 2 * n_high) * head_dim * static_cast<int64_t>(sizeof(float));
}

RotateArgs RopeTable::rotation(int32_t position) const {
  const size_t width = 2 * spec_.frequencies.size();
  assert(position >= 0);
  assert((static_cast<size_t>(position / kLow) + 1) * width <= high_.size());
  return {high_.data() + static_cast<size_t>(position / kLow) * width,
          low_.data() + static_cast<size_t>(position % kLow) * width,
          static_cast<int32_t>(spec_.frequencies.size()), spec_.neox, spec_.offset};
}

template <bool kBack>
void RopeTable::turn(int32_t position, float* row) const {
  const size_t n = spec_.frequencies.size();
  if (n == 0) return;
  assert(position >= 0);
  const float* low = low_.data() + static_cast<size_t>(position % kLow) * 2 * n;
  const float* high = high_.data() + static_cast<size_t>(position / kLow) * 2 * n;
  assert(high + 2 * n <= high_.data() + high_.size());
  const size_t step = spec_.neox ? 1 : 2;
  float* first = row + spec_.offset;
  float* second = first + (spec_.neox ? n : 1);
  for (size_t i = 0; i < n; ++i) {
    const float cosine = high[i] * low[i] - high[n + i] * low[n + i];
    const float sine = high[n + i] * low[i] + high[i] * low[n + i];
    const float x = first[i * step];
    const float y = second[i * step];
    first[i * step] = kBack ? x * cosine + y * sine : x * cosine - y * sine;
    second[i * step] = kBack ? y * cosine - x * sine : x * sine + y * cosine;
  }
}

template void RopeTable::turn<false>(int32_t position, float* row) const;
template void RopeTable::turn<true>(int32_t position, float* row) const;

}  // namespace kvasir
