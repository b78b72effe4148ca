// What one worker needs to look after a layer: its room to work in, and what it has spent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/cache_times.h"
#include "cache/cold_tier.h"
#include "cache/scratch.h"

namespace kvasir {

struct StepScratch {
  std::vector<float> scores;       ///< of candidates
  std::vector<int32_t> order;      ///< candidates, those that leave first
  std::vector<int32_t> survivors;  ///< slots that stay
  std::vector<int32_t> places;     ///< cells in read order
  EncodeScratch encode;
  CacheTimes times;  ///< not yet added to the cache's

  size_t bytes() const {
    return scores.capacity() * sizeof(float) +
           (order.capacity() + survivors.capacity() + places.capacity()) * sizeof(int32_t) +
           encode.bytes();
  }

  /// Gives the memory back; times stay.
  void trim() {
    give_back(scores);
    give_back(order);
    give_back(survivors);
    give_back(places);
    encode = {};
  }
};

}  // namespace kvasir
