// How many sequences of one length a number of bytes holds under a setting, and how fast they
// decode together.
//
// One sequence is read and decodes two tokens, so that what its policy evicts and what its format
// demotes has left; the others are copies of it. Nothing is evicted to make room: where one more
// does not fit, it is counted out. Every byte of the caches counts: rows, metadata, workspace, and
// beside them what the prompt of one sequence takes for a moment while it arrives.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/progress.h"
#include "eval/run/settings.h"
#include "llama.h"

namespace kvasir::eval {

struct CapacityPlan {
  int32_t depth = 4096;  ///< tokens of each sequence before it decodes
  int64_t budget_bytes = 0;
  int32_t most_sequences = 64;  ///< that are tried
  int32_t steps = 32;           ///< that are timed; at least 1
  uint64_t seed = 1;            ///< of the tokens
  int32_t n_ubatch = 512;
  int32_t n_threads = 2;
};

struct CapacitySample {
  std::string name, flags;
  int32_t n_sequences = 0;           ///< that fit; 0: not even one
  bool tried_all = false;            ///< all that the plan allows fit: there may be room for more
  int64_t bytes = 0;                 ///< of n_sequences that decode, after the timed steps
  int64_t arrival_bytes = 0;         ///< beside them, while one prompt is read
  double live_tokens = 0;            ///< of a sequence and layer
  std::vector<double> step_seconds;  ///< a token of each sequence

  double tokens_per_second() const;  ///< of all sequences, by the median step; 0 if none fits
};

/// How many of the first streams fit into `budget` beside `spare`, where all together hold `total`,
/// each its own share of it and the rest is shared.
int32_t streams_that_fit(int64_t total, std::span<const int64_t> streams, int64_t spare,
                         int64_t budget);

/// Measures one setting. Requires: the model was loaded onto the device. Fails with one line.
Result<CapacitySample> measure_capacity(const std::shared_ptr<llama_model>& model,
                                        const Setting& setting, const CapacityPlan& plan,
                                        const OnProgress& progress);

/// Units of work of one setting, for a progress line.
double capacity_units(const CapacityPlan& plan);

}  // namespace kvasir::eval
