#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/half.h"
#include "kernels/reference/reference.h"

namespace kvasir::reference {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

bool is_hidden(const PageArgs& args, int32_t row, int32_t slot) {
  const uint16_t* mask = args.mask != nullptr ? args.mask[row] : nullptr;
  return mask != nullptr && mask[slot] == kHalfMinusInfinity;
}

// Final score of (row, slot): capped, then masked; -inf when the mask hides the slot, whose K is
// then not read.
float score_of(const PageArgs& args, int32_t row, int32_t slot) {
  if (is_hidden(args, row, slot)) return kHidden;
  const uint16_t* mask = args.mask != nullptr ? args.mask[row] : nullptr;
  const uint16_t* k = args.k +
                      static_cast<ptrdiff_t>(slot / kLaneSlots) * args.head_dim_k * kLaneSlots +
                      slot % kLaneSlots;
  double score = 0;
  for (int32_t d = 0; d < args.head_dim_k; ++d) {
    score += static_cast<double>(args.q[row][d]) *
             static_cast<double>(half_to_float(k[static_cast<ptrdiff_t>(d) * kLaneSlots]));
  }
  score *= static_cast<double>(args.scale);
  if (args.soft_cap != 0) {
    const auto cap = static_cast<double>(args.soft_cap);
    score = cap * std::tanh(score / cap);
  }
  if (mask != nullptr) {
    const double slope = args.slope != nullptr ? static_cast<double>(args.slope[row]) : 1.0;
    score += slope * static_cast<double>(half_to_float(mask[slot]));
  }
  return static_cast<float>(score);
}

// exp(from - to), 1 when they are equal (also for equal infinities).
double decay(float from, float to) {
  return from == to ? 1.0 : std::exp(static_cast<double>(from) - static_cast<double>(to));
}

void attend_row(const PageArgs& args, const SoftmaxState& state, int32_t row) {
  std::array<float, kPageSlots> scores;
  for (int32_t slot = 0; slot < args.n_slots; ++slot) {
    scores[static_cast<size_t>(slot)] = score_of(args, row, slot);
  }
  if (args.scores != nullptr) std::copy_n(scores.data(), args.n_slots, args.scores[row]);

  const auto end = scores.begin() + args.n_slots;
  if (std::all_of(scores.begin(), end, [](float x) { return x == kHidden; })) return;
  float page_max = kHidden;
  for (auto x = scores.begin(); x != end; ++x) page_max = std::max(page_max, *x);  // skips NaN
  const float old_max = state.m[row];
  const float new_max = page_max <= old_max ? old_max : page_max;
  const double factor = decay(old_max, new_max);

  std::array<double, kPageSlots> p;
  double sum = static_cast<double>(state.s[row]) * factor;
  for (int32_t slot = 0; slot < args.n_slots; ++slot) {
    const auto i = static_cast<size_t>(slot);
    p[i] = std::exp(static_cast<double>(scores[i]) - static_cast<double>(new_max));
    sum += p[i];
  }
  float* acc = state.acc + static_cast<ptrdiff_t>(row) * state.acc_stride;
  for (int32_t d = 0; d < args.head_dim_v; ++d) {
    double out = static_cast<double>(acc[d]) * factor;
    for (int32_t slot = 0; slot < args.n_slots; ++slot) {
      const auto i = static_cast<size_t>(slot);
      if (is_hidden(args, row, slot)) continue;  // its V may be NaN and is not read
      const uint16_t v = args.v[static_cast<ptrdiff_t>(slot) * args.head_dim_v + d];
      out += p[i] * static_cast<double>(half_to_float(v));
    }
    acc[d] = static_cast<float>(out);
  }
  state.m[row] = new_max;
  state.s[row] = static_cast<float>(sum);
}

}  // namespace

void attend_page(const PageArgs& args, const SoftmaxState& state) {
  assert(args.n_slots >= 1 && args.n_slots <= kPageSlots);
  assert(args.head_dim_k >= 1 && args.head_dim_k <= kMaxHeadDim);
  assert(args.head_dim_v >= 1 && args.head_dim_v <= state.acc_stride);
  for (int32_t row = 0; row < args.n_rows; ++row) attend_row(args, state, row);
}

}  // namespace kvasir::reference
