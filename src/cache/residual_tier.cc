#include "cache/residual_tier.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "cache/scratch.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr int32_t kMostPageRows = 64;
constexpr int32_t kNoLow = 0xFFFF;  // low half of a father that is none
constexpr int32_t kNoHigh = 0xFF;

size_t z(int64_t n) { return static_cast<size_t>(n); }

uint64_t below(int32_t bit) { return (uint64_t{1} << bit) - 1; }

}  // namespace

ResidualTier::ResidualTier(const LayerGeometry& geometry, const ResidualParams& params,
                           const KvKernels& kernels, PageArena& arena)
    : codec_(params, geometry),
      kernels_(&kernels),
      arena_(&arena),
      row_bytes_(codec_.difference_bytes() + z(codec_.n_fathers()) * sizeof(uint16_t)),
      page_rows_(PageArena::thrifty_count(row_bytes_, kMostPageRows)),
      page_bytes_(row_bytes_ * z(page_rows_)),
      refs_(codec_.reference_bytes(), arena) {}

ResidualTier::~ResidualTier() { clear(); }

// --- Where things lie ---

ResidualTier::Place ResidualTier::place(int32_t slot) const {
  assert(slot >= 0 && slot < n_rows_);
  const Group& group = groups_[z(slot / kGroup)];
  const int32_t bit = slot % kGroup;
  const int32_t before = std::popcount(group.references & below(bit));
  if ((group.references >> bit & 1) != 0) return {true, own_[z(group.first_reference + before)]};
  return {false, group.first_difference + bit - before};
}

std::byte* ResidualTier::difference(int32_t index) const {
  return pages_[z(index / page_rows_)] + z(index % page_rows_) * row_bytes_;
}

int32_t ResidualTier::father(int32_t difference, int32_t i) const {
  uint16_t low;
  std::memcpy(&low,
              this->difference(difference) + codec_.difference_bytes() + z(i) * sizeof(uint16_t),
              sizeof(low));
  if (high_.empty()) return low == kNoLow ? -1 : low;
  const uint8_t high = high_[z(difference) * z(codec_.n_fathers()) + z(i)];
  return low == kNoLow && high == kNoHigh ? -1 : high << 16 | low;
}

void ResidualTier::set_father(int32_t difference, int32_t i, int32_t index) {
  const auto low = static_cast<uint16_t>(index < 0 ? kNoLow : index & 0xFFFF);
  std::memcpy(this->difference(difference) + codec_.difference_bytes() + z(i) * sizeof(uint16_t),
              &low, sizeof(low));
  if (high_.empty()) return;
  high_[z(difference) * z(codec_.n_fathers()) + z(i)] =
      static_cast<uint8_t>(index < 0 ? kNoHigh : index >> 16);
}

// From 65,535 references on 16 bits do not tell them apart.
void ResidualTier::widen() {
  const size_t k = z(codec_.n_fathers());
  const size_t n = z(int64_t{page_rows_} * static_cast<int64_t>(pages_.size())) * k;
  if (!high_.empty()) {
    high_.resize(n);
    return;
  }
  std::vector<uint8_t> high(n);
  for (int32_t row = 0; row < n_differences_; ++row) {
    for (size_t i = 0; i < k; ++i) {
      high[z(row) * k + i] = father(row, static_cast<int32_t>(i)) < 0 ? kNoHigh : 0;
    }
  }
  high_ = std::move(high);
}

void ResidualTier::push_place(bool is_reference, int32_t reference) {
  const int32_t bit = n_rows_ % kGroup;
  if (bit == 0) groups_.push_back({0, n_differences_, static_cast<int32_t>(own_.size())});
  if (is_reference) {
    groups_.back().references |= uint64_t{1} << bit;
    own_.push_back(reference);
  } else {
    ++n_differences_;
  }
  ++n_rows_;
}

int32_t ResidualTier::reference_of(int32_t slot) const {
  const Place at = place(slot);
  return at.is_reference ? at.index : -1;
}

std::span<const int32_t> ResidualTier::fathers(int32_t slot, std::span<int32_t> room,
                                               int32_t set) const {
  const Place at = place(slot);
  const int32_t k = codec_.params().neighbours;
  size_t n = 0;
  for (int32_t i = set * k; !at.is_reference && i < (set + 1) * k; ++i) {
    const int32_t index = father(at.index, i);
    if (index >= 0) room[n++] = index;
  }
  return room.first(n);
}

// --- Reading ---

void ResidualTier::read_part(int32_t slot, int32_t head, bool is_k, float* row) const {
  const Place at = place(slot);
  if (at.is_reference) {
    codec_.decode_reference(refs_.at(at.index), head, is_k, row);
    return;
  }
  std::array<const std::byte*, kMostNeighbours> fathers;
  const int32_t k = codec_.params().neighbours;
  const int32_t first = codec_.set_of(head) * k;
  int32_t n = 0;
  for (int32_t i = first; i < first + k; ++i) {
    const int32_t index = father(at.index, i);
    if (index < 0) break;
    fathers.at(z(n++)) = refs_.at(index);
  }
  codec_.restore(difference(at.index), fathers.data(), n, head, is_k, *kernels_, row);
}

// First the differences, which say who the fathers are, then the fathers.
void ResidualTier::fetch(int32_t head, std::span<const int32_t> slots) const {
  const auto lines = [](const std::byte* from, size_t n) {
    constexpr size_t kLine = 64;
    for (size_t at = 0; at < n + kLine; at += kLine)
      __builtin_prefetch(from + std::min(at, n), 0, 2);
  };
  const auto reference = [&](int32_t index) {
    for (const bool is_k : {true, false}) {
      const ResidualCodec::Bytes part = codec_.in_reference(head, is_k);
      lines(refs_.at(index) + part.at, part.n - 1);
    }
  };
  for (const int32_t slot : slots) {
    const Place at = place(slot);
    if (at.is_reference) continue;
    __builtin_prefetch(difference(at.index) + codec_.difference_bytes(), 0, 3);
    for (const bool is_k : {true, false}) {
      const ResidualCodec::Bytes part = codec_.in_difference(head, is_k);
      lines(difference(at.index) + part.at, part.n - 1);
    }
  }
  for (const int32_t slot : slots) {
    const Place at = place(slot);
    if (at.is_reference) {
      reference(at.index);
      continue;
    }
    const int32_t k = codec_.params().neighbours;
    const int32_t first = codec_.set_of(head) * k;
    for (int32_t i = first; i < first + k; ++i) {
      const int32_t index = father(at.index, i);
      if (index >= 0) reference(index);
    }
  }
}

void ResidualTier::read_k(int32_t head, int32_t first, int32_t n, const int32_t* positions,
                          float* out) const {
  const int32_t head_dim = codec_.geometry().head_dim_k;
  for (int32_t i = 0; i < n; ++i, out += head_dim) {
    read_part(first + i, head, true, out);
    if (rope_ != nullptr) kernels_->rotate_row(rope_->rotation(positions[i]), out);
  }
}

void ResidualTier::read_v(int32_t head, int32_t first, int32_t n, float* out) const {
  const int32_t head_dim = codec_.geometry().head_dim_v;
  for (int32_t i = 0; i < n; ++i, out += head_dim) read_part(first + i, head, false, out);
}

// --- Leaving ---

void ResidualTier::forget(int32_t slot) {
  const Place at = place(slot);
  if (at.is_reference) {
    refs_.disown(at.index);
    return;
  }
  for (int32_t i = 0; i < codec_.n_fathers(); ++i) {
    const int32_t index = father(at.index, i);
    if (index >= 0) refs_.release(index);
  }
}

void ResidualTier::keep(int32_t first, std::span<const int32_t> survivors, int32_t offset) {
  auto next = survivors.begin();
  for (int32_t slot = first; slot < n_rows_; ++slot) {
    if (next != survivors.end() && *next - offset == slot) {
      ++next;
    } else {
      forget(slot);
    }
  }
  old_groups_ = groups_;
  const size_t k = z(codec_.n_fathers());
  const auto counts = [this](int32_t slot) {  // references and differences before a slot
    const Group& group = old_groups_[z(slot / kGroup)];
    const int32_t before = std::popcount(group.references & below(slot % kGroup));
    return std::pair(group.first_reference + before,
                     group.first_difference + slot % kGroup - before);
  };
  if (first < n_rows_) {
    const auto [n_own, n_differences] = counts(first);
    groups_.resize(z((first + kGroup - 1) / kGroup));
    if (first % kGroup != 0) groups_.back().references &= below(first % kGroup);
    n_rows_ = first;
    n_differences_ = n_differences;
    auto to_own = z(n_own);
    for (const int32_t survivor : survivors) {
      const int32_t slot = survivor - offset;
      const auto [own, from] = counts(slot);
      const bool is_reference =
          (old_groups_[z(slot / kGroup)].references >> slot % kGroup & 1) != 0;
      if (n_rows_ % kGroup == 0) groups_.push_back({0, n_differences_, int32_t(to_own)});
      if (is_reference) {
        groups_.back().references |= uint64_t{1} << n_rows_ % kGroup;
        own_[to_own++] = own_[z(own)];
      } else {
        if (from != n_differences_) {
          std::memcpy(difference(n_differences_), difference(from), row_bytes_);
          if (!high_.empty()) {
            std::copy_n(high_.begin() + static_cast<ptrdiff_t>(z(from) * k), k,
                        high_.begin() + static_cast<ptrdiff_t>(z(n_differences_) * k));
          }
        }
        ++n_differences_;
      }
      ++n_rows_;
    }
    own_.resize(to_own);
  }
  release_from(z((n_differences_ + page_rows_ - 1) / page_rows_));
  if (n_rows_ == 0) clear();
}

void ResidualTier::release_from(size_t first_page) {
  for (size_t p = first_page; p < pages_.size(); ++p) arena_->release(pages_[p], page_bytes_);
  if (first_page < pages_.size()) pages_.resize(first_page);
}

void ResidualTier::clear() {
  n_rows_ = 0;
  n_differences_ = 0;
  release_from(0);
  give_back(pages_);
  give_back(groups_);
  give_back(old_groups_);
  give_back(own_);
  give_back(high_);
  refs_.clear();
}

bool ResidualTier::copy_from(const ColdTier& source) {
  const auto& other = static_cast<const ResidualTier&>(source);
  clear();
  if (!refs_.copy_from(other.refs_)) return false;
  for (const std::byte* page : other.pages_) {
    std::byte* copy = arena_->allocate(page_bytes_);
    if (copy == nullptr) {
      clear();
      return false;
    }
    std::memcpy(copy, page, page_bytes_);
    pages_.push_back(copy);
  }
  n_rows_ = other.n_rows_;
  n_differences_ = other.n_differences_;
  groups_ = other.groups_;
  own_ = other.own_;
  high_ = other.high_;
  return true;
}

size_t ResidualTier::bytes() const {
  return refs_.bytes() + pages_.size() * PageArena::footprint(page_bytes_) +
         pages_.capacity() * sizeof(std::byte*) +
         (groups_.capacity() + old_groups_.capacity()) * sizeof(Group) +
         own_.capacity() * sizeof(int32_t) + high_.capacity();
}

// --- Under a cap ---

// References have other indices: moved[old].
void ResidualTier::renumber(std::span<const int32_t> moved) {
  if (moved.empty()) return;
  for (int32_t& index : own_) index = moved[z(index)];
  for (int32_t row = 0; row < n_differences_; ++row) {
    for (int32_t i = 0; i < codec_.n_fathers(); ++i) {
      const int32_t index = father(row, i);
      if (index >= 0) set_father(row, i, moved[z(index)]);
    }
  }
}

void ResidualTier::trim() {
  renumber(refs_.trim());
  pages_.shrink_to_fit();
  groups_.shrink_to_fit();
  own_.shrink_to_fit();
  give_back(old_groups_);
  if (high_.empty()) return;
  if (refs_.size() < kNoLow) {
    give_back(high_);
  } else {
    high_.resize(z(page_rows_) * pages_.size() * z(codec_.n_fathers()));
    high_.shrink_to_fit();
  }
}

void ResidualTier::describe(LayerShape& shape) const {
  const ResidualParams& params = codec_.params();
  const bool stands = params.choice != ReferenceChoice::kMean;
  shape.cold_page = static_cast<int64_t>(PageArena::footprint(page_bytes_));
  shape.cold_page_slots = page_rows_;
  shape.unit = kBlockRows;
  ReferenceShape& of = shape.references;
  of.page = refs_.page_footprint();
  of.page_rows = refs_.page_rows();
  of.unit = kBlockRows;
  of.per_unit = stands ? (kBlockRows + params.stride - 1) / params.stride : 1;
  of.stride = stands ? params.stride : 0;
  of.neighbours = codec_.n_fathers();
  of.index_bytes = ReferencePool::index_bytes();
  of.group_bytes = sizeof(Group);
  of.group_rows = kGroup;
  of.sinks = shape.sinks;
  of.page_differences = page_rows_;
}

void ResidualTier::describe(LayerLoad& load) const {
  load.n_cold = n_rows_;
  load.cold_pages = static_cast<int32_t>(pages_.size());
  load.cold_table = static_cast<int32_t>(pages_.capacity());
  ReferenceLoad& of = load.references;
  of.n_differences = n_differences_;
  of.n_own = static_cast<int32_t>(own_.size());
  of.n_live = n_references();
  of.n_indices = refs_.size();
  of.pages = refs_.n_pages();
  of.table = refs_.table_capacity();
  of.index_capacity = refs_.index_capacity();
  of.own_capacity = static_cast<int32_t>(own_.capacity());
  of.group_capacity = static_cast<int32_t>(groups_.capacity());
  of.scratch_capacity = static_cast<int32_t>(old_groups_.capacity());
  of.wide_bytes = static_cast<int64_t>(high_.capacity());
}

}  // namespace kvasir
