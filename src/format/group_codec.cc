#include "format/group_codec.h"

#include <cassert>
#include <vector>

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

/// The nearest of kNf4Levels, on a tie the lower one.
uint32_t nf4_code(float x, const Steps& steps) {
  const float scale = half_to_float(steps.scale);
  const float level = scale == 0 ? 0.0f : x / scale;
  uint32_t best = 0;
  for (uint32_t code = 1; code < kNf4Levels.size(); ++code) {
    if (std::abs(kNf4Levels[code] - level) < std::abs(kNf4Levels[best] - level)) best = code;
  }
  return best;
}

uint32_t code_of(const Packing& packing, const Steps& steps, float x) {
  const int32_t max_code = (1 << packing.bits) - 1;
  switch (packing.levels) {
    case Levels::kSigned:
      return static_cast<uint32_t>(steps.signed_code(x, max_code / 2));
    case Levels::kNf4:
      return nf4_code(x, steps);
    case Levels::kUnsigned:
      break;
  }
  return steps.code(x, max_code);
}

}  // namespace

void encode_groups(const Packing& packing, int32_t head_dim, const float* row, std::byte* codes) {
  assert(packing.has_groups());
  std::byte* scale = codes;
  std::byte* const packed = codes + packing.scale_bytes(head_dim);
  std::fill_n(packed, packing.code_bytes(head_dim), std::byte{0});
  for (int32_t g = 0; g < packing.n_groups(head_dim); ++g) {
    const Group group = group_at(packing, head_dim, g);
    const Steps steps = group_steps(packing, row, group);
    scale = put_half(scale, steps.scale);
    if (packing.has_zero()) scale = put_half(scale, steps.zero);
    for (int32_t d = group.first; d < group.last; ++d) {
      put_code(packed, packing.bits, head_dim, d, code_of(packing, steps, row[d]));
    }
  }
}

void GroupCodec::encode(int32_t head_dim, const float* rows, ptrdiff_t /*row_stride*/,
                        std::byte* codes, std::byte* /*shared*/) const {
  std::vector<float> row(rows, rows + head_dim);
  for (float& x : row) x = admitted(x);
  encode_groups(packing_, head_dim, row.data(), codes);
}

void GroupCodec::decode(int32_t head_dim, const std::byte* codes, int32_t n_rows,
                        const std::byte* shared, float* out) const {
  best_kernels().unpack_rows({packing_, head_dim, n_rows, codes, shared}, out);
}

}  // namespace kvasir
