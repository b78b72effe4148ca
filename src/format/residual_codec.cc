#include "format/residual_codec.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "format/f16_codec.h"
#include "format/group_codec.h"
#include "format/quantize.h"

namespace kvasir {
namespace {

const RowCodec& difference_codec(int32_t bits, int32_t group) {
  const auto packing = [](int32_t n_bits, int32_t channels) {
    return Packing{.bits = n_bits,
                   .scaling = Scaling::kGroupZero,
                   .group_channels = channels,
                   .rest_joins_last = channels == 64};
  };
  static const std::array<GroupCodec, 4> codecs = {
      GroupCodec(packing(2, 32)), GroupCodec(packing(2, 64)), GroupCodec(packing(4, 32)),
      GroupCodec(packing(4, 64))};
  if (bits == 16) return f16_codec();
  return codecs.at((bits == 4 ? 2U : 0U) + (group == 64 ? 1U : 0U));
}

const RowCodec& reference_codec(bool int8) {
  static const GroupCodec codec({.levels = Levels::kSigned,
                                 .bits = 8,
                                 .scaling = Scaling::kGroup,
                                 .group_channels = 64,
                                 .rest_joins_last = true});
  return int8 ? static_cast<const RowCodec&>(codec) : f16_codec();
}

}  // namespace

ResidualCodec::ResidualCodec(const ResidualParams& params, const LayerGeometry& geometry)
    : params_(params),
      geometry_(geometry),
      differences_(&difference_codec(params.bits, params.group)),
      references_(&reference_codec(params.int8)) {
  assert(differences_->block_rows() == 1 && references_->block_rows() == 1);
  ptrdiff_t at = 0;
  for (int32_t i = 0; i < 2 * geometry.n_kv_heads; ++i) {
    const int32_t head_dim = i < geometry.n_kv_heads ? geometry.head_dim_k : geometry.head_dim_v;
    parts_.push_back({head_dim, at, reference_bytes_, difference_bytes_});
    at += head_dim;
    reference_bytes_ += references_->row_bytes(head_dim);
    difference_bytes_ += differences_->row_bytes(head_dim);
  }
}

double ResidualCodec::bytes_per_token() const {
  const double numbers = 2.0 * n_fathers();
  const double difference = static_cast<double>(difference_bytes_) + numbers;
  const double reference = static_cast<double>(reference_bytes_) + 4;  // who needs it
  constexpr double kPlaces = 16.0 / 64;
  if (params_.choice == ReferenceChoice::kMean) return difference + reference / 256 + kPlaces;
  const double share = 1.0 / params_.stride;
  return (1 - share) * difference + share * (reference + 4) + kPlaces;
}

void ResidualCodec::encode_reference(const float* x, std::byte* to) const {
  for (const Part& p : parts_) {
    references_->encode(p.head_dim, x + p.at, p.head_dim, to + p.in_reference, nullptr);
  }
}

void ResidualCodec::decode_reference(const std::byte* from, float* x) const {
  for (const Part& p : parts_) {
    references_->decode(p.head_dim, from + p.in_reference, 1, nullptr, x + p.at);
  }
}

void ResidualCodec::encode(const float* x, const float* mean, std::byte* to) const {
  float row[kMaxHeadDim];
  for (const Part& p : parts_) {
    for (int32_t d = 0; d < p.head_dim; ++d) {
      row[d] = admitted(admitted(x[p.at + d]) - mean[p.at + d]);
    }
    if (params_.turned && params_.bits != 16) turn_row(row, p.head_dim);
    differences_->encode(p.head_dim, row, p.head_dim, to + p.in_difference, nullptr);
  }
}

ResidualCodec::Bytes ResidualCodec::in_reference(int32_t head, bool is_k) const {
  const Part& p = part(head, is_k);
  return {p.in_reference, references_->row_bytes(p.head_dim)};
}

ResidualCodec::Bytes ResidualCodec::in_difference(int32_t head, bool is_k) const {
  const Part& p = part(head, is_k);
  return {p.in_difference, differences_->row_bytes(p.head_dim)};
}

void ResidualCodec::decode_reference(const std::byte* from, int32_t head, bool is_k,
                                     float* row) const {
  const Part& p = part(head, is_k);
  references_->decode(p.head_dim, from + p.in_reference, 1, nullptr, row);
}

void ResidualCodec::add_difference(const std::byte* from, const Part& part, float* row) const {
  float difference[kMaxHeadDim];
  differences_->decode(part.head_dim, from + part.in_difference, 1, nullptr, difference);
  if (params_.turned && params_.bits != 16) turn_row(difference, part.head_dim);
  for (int32_t d = 0; d < part.head_dim; ++d) row[d] += difference[d];
}

void ResidualCodec::restore(const std::byte* difference, const std::byte* const* fathers,
                            int32_t n_fathers, int32_t head, bool is_k, const KvKernels& kernels,
                            float* row) const {
  assert(n_fathers > 0 && n_fathers <= kMostNeighbours);
  const Part& p = part(head, is_k);
  if (params_.int8 && params_.bits != 16) {
    std::array<const std::byte*, kMostNeighbours> parts;
    for (size_t i = 0; i < static_cast<size_t>(n_fathers); ++i) {
      parts.at(i) = fathers[i] + p.in_reference;
    }
    kernels.restore_row({*references_->packing(), *differences_->packing(), p.head_dim,
                         parts.data(), n_fathers, difference + p.in_difference, params_.turned},
                        row);
    return;
  }
  float reference[kMaxHeadDim];
  for (int32_t i = 0; i < n_fathers; ++i) {
    decode_reference(fathers[i], head, is_k, i == 0 ? row : reference);
    for (int32_t d = 0; i > 0 && d < p.head_dim; ++d) row[d] += reference[d];
  }
  for (int32_t d = 0; d < p.head_dim; ++d) row[d] /= static_cast<float>(n_fathers);
  add_difference(difference, p, row);
}

}  // namespace kvasir
