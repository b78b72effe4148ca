// In which order attention reads the slots of a layer: page by page, tier by tier.
//
// Slots ascend by position: the first n_head and the newest lie in the f16 tier, n_cold between
// them in the compressed one. Attention does not depend on the order of rows, so it reads the f16
// tier first and then the compressed one, whose rows may lie in any order; each tier ends with a
// page of its own, and the places behind its last row are padding. A place is a number in that
// order.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>

#include "kernels/kernels.h"

namespace kvasir {

/// Places that are no slots: the last page of each tier is padded.
inline constexpr int32_t kPlacesPadding = 2 * kPageSlots;

struct ReadOrder {
  int32_t n_slots = 0;  ///< of both tiers
  int32_t n_head = 0;   ///< f16 slots before the compressed ones
  int32_t n_cold = 0;   ///< compressed slots
  /// Which row of the compressed tier each of its slots is; null: slot i is row i.
  const int32_t* cold_rows = nullptr;

  static constexpr int32_t pages_of(int32_t n) { return (n + kPageSlots - 1) / kPageSlots; }
  int32_t n_f16() const { return n_slots - n_cold; }
  int32_t f16_pages() const { return pages_of(n_f16()); }
  int32_t n_pages() const { return f16_pages() + pages_of(n_cold); }
  int32_t n_places() const { return n_pages() * kPageSlots; }
  bool is_cold(int32_t page) const { return page >= f16_pages(); }
  /// First slot of a page in its tier, and how many it holds.
  int32_t first_in_tier(int32_t page) const {
    return (is_cold(page) ? page - f16_pages() : page) * kPageSlots;
  }
  int32_t slots_in(int32_t page) const {
    return std::min(kPageSlots, (is_cold(page) ? n_cold : n_f16()) - first_in_tier(page));
  }
  /// Places are slots.
  bool is_identity() const { return n_cold == 0; }

  /// The slot at place `i` of a page. Requires: i < slots_in(page).
  int32_t slot_at(int32_t page, int32_t i) const {
    assert(cold_rows == nullptr);
    const int32_t in_tier = first_in_tier(page) + i;
    if (is_cold(page)) return n_head + in_tier;
    return in_tier < n_head ? in_tier : in_tier + n_cold;
  }
  int32_t place_of(int32_t slot) const {
    if (slot < n_head || n_cold == 0) return slot;
    return slot < n_head + n_cold ? f16_pages() * kPageSlots + row_of(slot) : slot - n_cold;
  }

  /// The row of slot i of the compressed tier.
  int32_t cold_row(int32_t i) const { return cold_rows == nullptr ? i : cold_rows[i]; }

  /// The row of a slot in its tier.
  int32_t row_of(int32_t slot) const {
    if (slot < n_head || n_cold == 0) return slot;
    if (slot >= n_head + n_cold) return slot - n_cold;
    return cold_row(slot - n_head);
  }

  /// Puts values of slots, [n_slots], in the order of places; padding gets `padding`.
  template <typename T>
  void to_places(std::span<const T> slots, T padding, std::span<T> places) const {
    std::fill(places.begin(), places.end(), padding);
    const auto cold_end = slots.begin() + (n_cold == 0 ? 0 : n_head + n_cold);
    if (n_cold > 0) {
      std::copy_n(slots.begin(), n_head, places.begin());
      const auto cold = places.subspan(static_cast<size_t>(f16_pages()) * kPageSlots);
      const auto from = slots.subspan(static_cast<size_t>(n_head));
      for (int32_t i = 0; i < n_cold; ++i) {
        cold[static_cast<size_t>(cold_row(i))] = from[static_cast<size_t>(i)];
      }
    }
    std::copy(cold_end, slots.end(), places.begin() + (n_cold == 0 ? 0 : n_head));
  }

  /// The reverse; places and slots must not overlap.
  template <typename T>
  void to_slots(std::span<const T> places, std::span<T> slots) const {
    if (n_cold == 0) {
      std::copy_n(places.begin(), slots.size(), slots.begin());
      return;
    }
    const auto f16 = places.begin();
    std::copy_n(f16, n_head, slots.begin());
    const auto cold = places.subspan(static_cast<size_t>(f16_pages()) * kPageSlots);
    const auto to = slots.subspan(static_cast<size_t>(n_head));
    for (int32_t i = 0; i < n_cold; ++i) {
      to[static_cast<size_t>(i)] = cold[static_cast<size_t>(cold_row(i))];
    }
    std::copy_n(f16 + n_head, n_f16() - n_head, slots.begin() + n_head + n_cold);
  }
};

}  // namespace kvasir
