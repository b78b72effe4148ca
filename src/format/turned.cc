// k5v4 and its relatives kXvY: K of X bits, turned and without its channel means; V of Y bits.
//
// K is turned (turn_row), which spreads large channels over all; what the rows of a block have in
// common, the mean of each channel over 128 rows, is kept apart and shared; the rest is asymmetric
// with a scale and zero for 64 channels of a token. Rows come back turned: the query is turned too.
// V is asymmetric per token with the same groups and not turned, since outputs would have to be
// turned back. The transform of K alone with scales per token and head is SAW-INT4's (arXiv
// 2604.19157). On this project's default model keys carry nearly all of the error, hence more bits
// for K; removing the mean helps there only if the sink tokens, whose keys are unlike all others,
// stay out of the block: keep them in f16.
// k5v4: 31.6 % of f16 for a head_dim that is a multiple of 64.
#include <algorithm>
#include <array>
#include <cassert>

#include "format/group_codec.h"
#include "format/quantize.h"
#include "kernels/kernels.h"

namespace kvasir {
namespace {

/// Groups of 64 channels; what is left over joins the last one, which may thus have up to 127.
Packing packing_of(int32_t bits, Scaling scaling) {
  return {.bits = bits, .scaling = scaling, .group_channels = 64, .rest_joins_last = true};
}

class TurnedCodec final : public RowCodec {
 public:
  explicit TurnedCodec(int32_t bits) : packing_(packing_of(bits, Scaling::kGroupZeroMean)) {}

  int32_t block_rows() const override { return kMaxBlockRows; }
  size_t row_bytes(int32_t head_dim) const override { return packing_.row_bytes(head_dim); }
  size_t shared_bytes(int32_t head_dim) const override {
    return static_cast<size_t>(head_dim) * sizeof(uint16_t);
  }
  bool turned() const override { return true; }
  const Packing* packing() const override { return &packing_; }

  void encode(int32_t head_dim, const float* rows, ptrdiff_t row_stride, std::byte* codes,
              std::byte* shared) const override;

  void decode(int32_t head_dim, const std::byte* codes, int32_t n_rows, const std::byte* shared,
              float* out) const override {
    best_kernels().unpack_rows({packing_, head_dim, n_rows, codes, shared}, out);
  }

 private:
  Packing packing_;
};

/// Turns the row; a sum of large values is clamped again.
void turn_admitted(float* row, int32_t head_dim) {
  for (int32_t d = 0; d < head_dim; ++d) row[d] = admitted(row[d]);
  turn_row(row, head_dim);
  for (int32_t d = 0; d < head_dim; ++d) row[d] = admitted(row[d]);
}

void TurnedCodec::encode(int32_t head_dim, const float* rows, ptrdiff_t row_stride,
                         std::byte* codes, std::byte* shared) const {
  const auto width = static_cast<size_t>(head_dim);
  assert(head_dim <= kMaxHeadDim);
  thread_local std::vector<float> block;  // grows once to the largest head
  block.resize(std::max(block.size(), width * kMaxBlockRows));
  std::array<double, kMaxHeadDim> sums{};
  for (int32_t r = 0; r < kMaxBlockRows; ++r) {
    float* const row = block.data() + static_cast<size_t>(r) * width;
    std::copy_n(rows + r * row_stride, width, row);
    turn_admitted(row, head_dim);
    for (size_t d = 0; d < width; ++d) sums[d] += static_cast<double>(row[d]);
  }
  std::array<float, kMaxHeadDim> mean;
  for (size_t d = 0; d < width; ++d) {
    const auto exact = static_cast<float>(sums[d] / kMaxBlockRows);
    shared = put_half(shared, exact);
    mean[d] = half_to_float(float_to_half(exact));
  }
  for (int32_t r = 0; r < kMaxBlockRows; ++r) {
    float* const row = block.data() + static_cast<size_t>(r) * width;
    for (size_t d = 0; d < width; ++d) row[d] = admitted(row[d] - mean[d]);
    encode_groups(packing_, head_dim, row, codes);
    codes += row_bytes(head_dim);
  }
}

struct Bits {
  std::string_view name, text;
  int32_t k, v;
};

constexpr std::array<Bits, 5> kFormats = {{
    {"k8v4", "K turned, its mean apart, 8 bits; V 4 bits", 8, 4},
    {"k5v4", "K turned, its mean apart, 5 bits; V 4 bits", 5, 4},
    {"k4v4", "K turned, its mean apart, 4 bits; V 4 bits", 4, 4},
    {"k4v2", "K turned, its mean apart, 4 bits; V 2 bits", 4, 2},
    {"k3v2", "K turned, its mean apart, 3 bits; V 2 bits", 3, 2},
}};

/// Codecs by their bits.
const RowCodec* k_codec(int32_t bits) {
  static const std::array<TurnedCodec, 4> codecs = {TurnedCodec(3), TurnedCodec(4), TurnedCodec(5),
                                                    TurnedCodec(8)};
  return &codecs.at(bits == 8 ? 3 : static_cast<size_t>(bits - 3));
}

const RowCodec* v_codec(int32_t bits) {
  static const std::array<GroupCodec, 2> codecs = {GroupCodec(packing_of(2, Scaling::kGroupZero)),
                                                   GroupCodec(packing_of(4, Scaling::kGroupZero))};
  return &codecs.at(bits == 4 ? 1 : 0);
}

}  // namespace

void add_turned(std::vector<RowFormat>& formats) {
  for (const Bits& bits : kFormats) {
    formats.push_back({bits.name, bits.text, k_codec(bits.k), v_codec(bits.v)});
  }
}

}  // namespace kvasir
