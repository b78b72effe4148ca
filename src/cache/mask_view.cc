#include "cache/mask_view.h"

#include <algorithm>
#include <cassert>

#include "cache/scratch.h"

namespace kvasir {
namespace {

MaskView::Visibility class_of(const uint16_t* values, int32_t n) {
  uint16_t any = 0;
  uint16_t not_hidden = 0;
  for (int32_t i = 0; i < n; ++i) {
    any = static_cast<uint16_t>(any | values[i]);
    not_hidden = static_cast<uint16_t>(not_hidden | (values[i] ^ kF16MinusInf));
  }
  if (any == 0) return MaskView::kFully;
  return not_hidden == 0 ? MaskView::kHidden : MaskView::kPartly;
}

}  // namespace

void MaskView::classify(int32_t n_queries) {
  n_pages_ = (n_slots_ + kPageSlots - 1) / kPageSlots;
  make_room(classes_, static_cast<size_t>(n_queries) * static_cast<size_t>(n_pages_));
  if (data_ == nullptr) {
    std::fill(classes_.begin(), classes_.end(), uint8_t{kFully});
    return;
  }
  uint8_t* out = classes_.data();
  for (int32_t q = 0; q < n_queries; ++q) {
    const uint16_t* row = data_ + q * stride_;
    for (int32_t first = 0; first < n_slots_; first += kPageSlots) {
      *out++ = class_of(row + first, std::min(kPageSlots, n_slots_ - first));
    }
  }
}

void MaskView::set_identity(const CellMask& mask, int64_t epoch) {
  if (mask.data != nullptr && mask.data == last_data_ && epoch == last_epoch_ && cells_.empty() &&
      mask.n_cells == n_slots_) {
    return;
  }
  cells_.clear();
  data_ = mask.data;
  stride_ = mask.stride;
  n_slots_ = mask.n_cells;
  last_data_ = mask.data;
  last_epoch_ = epoch;
  classify(mask.n_queries);
}

void MaskView::set_gathered(const CellMask& mask, std::span<const int32_t> cells, int64_t epoch) {
  if (mask.data != nullptr && mask.data == last_data_ && epoch == last_epoch_ && !cells.empty() &&
      std::equal(cells.begin(), cells.end(), cells_.begin(), cells_.end())) {
    return;
  }
  last_data_ = mask.data;
  last_epoch_ = epoch;
  if (cells_.capacity() < cells.size()) {
    give_back(cells_);
    cells_.reserve(cells.size() + cells.size() / 8);
  }
  cells_.assign(cells.begin(), cells.end());
  n_slots_ = static_cast<int32_t>(cells.size());
  data_ = nullptr;
  const bool any_hidden =
      mask.data == nullptr && std::find(cells.begin(), cells.end(), kNoCell) != cells.end();
  if (any_hidden) {
    make_room(gathered_, cells.size());
    std::transform(cells.begin(), cells.end(), gathered_.begin(),
                   [](int32_t cell) { return cell == kNoCell ? kF16MinusInf : uint16_t{0}; });
    data_ = gathered_.data();
    stride_ = 0;
  }
  if (mask.data != nullptr) {
    make_room(gathered_, static_cast<size_t>(mask.n_queries) * cells.size());
    uint16_t* out = gathered_.data();
    for (int32_t q = 0; q < mask.n_queries; ++q) {
      const uint16_t* row = mask.data + q * mask.stride;
      for (const int32_t cell : cells) *out++ = cell < mask.n_cells ? row[cell] : kF16MinusInf;
    }
    data_ = gathered_.data();
    stride_ = static_cast<ptrdiff_t>(cells.size());
  }
  classify(mask.n_queries);
}

}  // namespace kvasir
