#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/reference/reference.h"
#include "kernels/row_tiles.h"

namespace kvasir::reference {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

bool is_hidden(const PageArgs& args, int32_t row, int32_t slot) {
  const uint16_t* mask = args.mask != nullptr ? args.mask[row] : nullptr;
  return mask != nullptr && mask[slot] == kHalfMinusInfinity;
}

// The f16 page of the arguments.
struct HalfPage {
  const PageArgs& args;

  double k(int32_t slot, int32_t d) const {
    const ptrdiff_t group = ptrdiff_t{slot / kLaneSlots} * args.head_dim_k * kLaneSlots;
    return static_cast<double>(
        half_to_float(args.k[group + ptrdiff_t{d} * kLaneSlots + slot % kLaneSlots]));
  }
  double v(int32_t slot, int32_t d) const {
    return static_cast<double>(half_to_float(args.v[ptrdiff_t{slot} * args.head_dim_v + d]));
  }
};

// The values of a page of codes.
class CodedValues {
 public:
  CodedValues(const CodedPage& page, int32_t n_slots)
      : head_dim_k_(page.k.head_dim),
        head_dim_v_(page.v.head_dim),
        k_(values(page.k, n_slots)),
        v_(values(page.v, n_slots)) {}

  double k(int32_t slot, int32_t d) const {
    return static_cast<double>(k_[at(slot, head_dim_k_, d)]);
  }
  double v(int32_t slot, int32_t d) const {
    return static_cast<double>(v_[at(slot, head_dim_v_, d)]);
  }

 private:
  static size_t at(int32_t slot, int32_t head_dim, int32_t d) {
    return static_cast<size_t>(slot) * static_cast<size_t>(head_dim) + static_cast<size_t>(d);
  }
  // Packed rows of a side that lies in a tile.
  static std::vector<std::byte> unpack_tile(const CodedSide& side, int32_t n_slots) {
    const RowTiles tiles{side.packing, side.head_dim, side.layout};
    const size_t row_bytes = side.packing.row_bytes(side.head_dim);
    std::vector<std::byte> rows(row_bytes * static_cast<size_t>(n_slots));
    for (int32_t slot = 0; slot < n_slots; ++slot) {
      tiles.get(side, slot, rows.data() + static_cast<size_t>(slot) * row_bytes);
    }
    return rows;
  }
  static std::vector<float> values(CodedSide side, int32_t n_slots) {
    std::vector<float> out(static_cast<size_t>(n_slots * side.head_dim));
    const size_t row_bytes = side.packing.row_bytes(side.head_dim);
    std::vector<std::byte> rows;
    if (side.layout != RowLayout::kRows) {
      rows = unpack_tile(side, n_slots);
      side.rows = rows.data();
    }
    int32_t first = 0;
    for (int32_t i = 0; i < side.n_runs; ++i) {
      const SharedRun& run = side.runs[static_cast<size_t>(i)];
      unpack_rows({side.packing, side.head_dim, run.end - first,
                   side.rows + static_cast<size_t>(first) * row_bytes, run.shared},
                  out.data() + static_cast<ptrdiff_t>(first) * side.head_dim);
      first = run.end;
    }
    assert(first == n_slots);
    return out;
  }

  int32_t head_dim_k_, head_dim_v_;
  std::vector<float> k_, v_;
};

// Final score of (row, slot): capped, then masked; -inf when the mask hides the slot, whose K is
// then not read.
template <typename Values>
float score_of(const PageArgs& args, const Values& values, int32_t row, int32_t slot) {
  if (is_hidden(args, row, slot)) return kHidden;
  const uint16_t* mask = args.mask != nullptr ? args.mask[row] : nullptr;
  double score = 0;
  for (int32_t d = 0; d < args.head_dim_k; ++d) {
    score += static_cast<double>(args.q[row][d]) * values.k(slot, d);
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

template <typename Values>
void attend_row(const PageArgs& args, const Values& values, const SoftmaxState& state,
                int32_t row) {
  std::array<float, kPageSlots> scores;
  for (int32_t slot = 0; slot < args.n_slots; ++slot) {
    scores[static_cast<size_t>(slot)] = score_of(args, values, row, slot);
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
      out += p[i] * values.v(slot, d);
    }
    acc[d] = static_cast<float>(out);
  }
  state.m[row] = new_max;
  state.s[row] = static_cast<float>(sum);
}

template <typename Values>
void attend_rows(const PageArgs& args, const Values& values, const SoftmaxState& state) {
  assert(args.n_slots >= 1 && args.n_slots <= kPageSlots);
  assert(args.head_dim_k >= 1 && args.head_dim_k <= kMaxHeadDim);
  assert(args.head_dim_v >= 1 && args.head_dim_v <= state.acc_stride);
  for (int32_t row = 0; row < args.n_rows; ++row) attend_row(args, values, state, row);
}

}  // namespace

void attend_page(const PageArgs& args, const SoftmaxState& state) {
  attend_rows(args, HalfPage{args}, state);
}

// Nothing is prepared: the definition multiplies values.
void attend_coded(const PageArgs& args, const CodedPage& page, CodedQueries& queries,
                  int32_t first_row, const SoftmaxState& state) {
  assert(attends_coded(page.k.packing, page.k.head_dim, page.v.packing, page.v.head_dim));
  assert(first_row >= 0 && first_row + args.n_rows <= queries.n_rows);
  PageArgs rows = args;
  rows.q = queries.q + first_row;
  attend_rows(rows, CodedValues(page, args.n_slots), state);
}

}  // namespace kvasir::reference
