// The floor of a model: how far stock llama.cpp's own exact paths are from each other.
//
// A KL below it says nothing about a cache. Measured once for each model file and kept in the
// folder of fetched things. Knows stock sessions only.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvasir::eval {

struct Floor {
  double kl = 0;                   ///< the larger of the two, nats, mean
  double flash_attention_off = 0;  ///< flash attention off against on
  double ubatch_64 = 0;            ///< prompt in ubatches of 64 against 512
  int32_t tokens = 0;              ///< rows compared
  std::string text;
};

/// The floor of the model file at `path`: stored, or measured now on `n_threads` threads (a few
/// seconds on a small model). Fails with one line. An unwritable folder only costs the next run
/// the same time.
Result<Floor> floor_of(const std::string& path, int32_t n_threads);

}  // namespace kvasir::eval
