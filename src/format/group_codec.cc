#include "format/group_codec.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "format/quantize.h"
#include "kernels/kernels.h"

namespace kvasir {
namespace {

/// Channels [first, last) of a row.
struct Group {
  int32_t first, last;
};

Group group_at(const Packing& packing, int32_t head_dim, int32_t index) {
  const int32_t first = index * packing.group_channels;
  const bool is_last = index + 1 == packing.n_groups(head_dim);
  return {first, is_last ? head_dim : first + packing.group_channels};
}

float max_abs(const float* row, Group group) {
  float largest = 0;
  for (int32_t d = group.first; d < group.last; ++d) largest = std::max(largest, std::abs(row[d]));
  return largest;
}

Steps group_steps(const Packing& packing, const float* row, Group group) {
  const int32_t max_code = (1 << packing.bits) - 1;
  switch (packing.levels) {
    case Levels::kSigned:
      return symmetric_steps(max_abs(row, group), max_code / 2);
    case Levels::kNf4:
      return symmetric_steps(max_abs(row, group), 1);
    case Levels::kUnsigned:
      break;
  }
  const auto [low, high] = std::minmax_element(row + group.first, row + group.last);
  return steps_between(*low, *high, max_code);
}

/// The nearest of kNf4Levels, on a tie the lower one: how many of the middles between neighbours
/// lie below.
uint8_t nf4_code(float level) {
  int32_t code = 0;
  for (size_t i = 0; i + 1 < kNf4Levels.size(); ++i) {
    code += level > (kNf4Levels[i] + kNf4Levels[i + 1]) / 2 ? 1 : 0;
  }
  return static_cast<uint8_t>(code);
}

/// Codes of one group.
void choose_codes(const Packing& packing, const Steps& steps, const float* row, Group group,
                  uint8_t* codes) {
  const int32_t max_code = (1 << packing.bits) - 1;
  switch (packing.levels) {
    case Levels::kSigned:
      for (int32_t d = group.first; d < group.last; ++d) {
        codes[d] = steps.signed_code(row[d], max_code / 2);
      }
      return;
    case Levels::kNf4:
      for (int32_t d = group.first; d < group.last; ++d) codes[d] = nf4_code(steps.level(row[d]));
      return;
    case Levels::kUnsigned:
      for (int32_t d = group.first; d < group.last; ++d) codes[d] = steps.code(row[d], max_code);
      return;
  }
}

}  // namespace

void encode_groups(const Packing& packing, int32_t head_dim, const float* row, std::byte* codes) {
  assert(packing.has_groups());
  assert(head_dim <= kMaxHeadDim);
  std::array<uint8_t, kMaxHeadDim> chosen;
  std::byte* scale = codes;
  for (int32_t g = 0; g < packing.n_groups(head_dim); ++g) {
    const Group group = group_at(packing, head_dim, g);
    const Steps steps = group_steps(packing, row, group);
    scale = put_half(scale, steps.step);
    if (packing.has_zero()) scale = put_half(scale, steps.zero);
    choose_codes(packing, steps, row, group, chosen.data());
  }
  pack_codes(packing.bits, head_dim, chosen.data(), codes + packing.scale_bytes(head_dim));
}

void GroupCodec::encode(int32_t head_dim, const float* rows, ptrdiff_t /*row_stride*/,
                        std::byte* codes, std::byte* /*shared*/) const {
  assert(head_dim <= kMaxHeadDim);
  std::array<float, kMaxHeadDim> row;
  std::transform(rows, rows + head_dim, row.begin(), admitted);
  encode_groups(packing_, head_dim, row.data(), codes);
}

void GroupCodec::decode(int32_t head_dim, const std::byte* codes, int32_t n_rows,
                        const std::byte* shared, float* out) const {
  best_kernels().unpack_rows({packing_, head_dim, n_rows, codes, shared}, out);
}

}  // namespace kvasir
