// A cache alone on made-up rows: what the parts of a decode step cost at depths that no small model
// reaches.
//
// A step is one token: a row a layer is appended, one query a head attends to all that is there,
// and the step ends, so that the policy evicts. Rows and queries are seeded random normal values;
// there are no logits, so a policy that asks for confidence counts every step as unsure.
// Knows src/cache/ and no model. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "cache/options.h"
#include "eval/progress.h"
#include "kernels/kernels.h"

namespace kvasir::eval {

struct SyntheticShape {
  int32_t n_layers = 4;
  int32_t n_heads = 9;  ///< query heads; a multiple of n_kv_heads
  int32_t n_kv_heads = 3;
  int32_t head_dim = 64;  ///< of K and of V
  /// Bytes of the rows of one token in f16, all layers.
  int64_t token_bytes() const {
    return int64_t{4} * n_layers * n_kv_heads * head_dim;  // K and V, two bytes each
  }
};

struct SyntheticPlan {
  SyntheticShape shape;
  std::vector<int32_t> depths = {100'000, 500'000, 1'000'000};  ///< rows per layer, ascending
  int32_t steps = 32;                                           ///< timed at each depth
  uint64_t seed = 1;
  CacheOptions options;
};

/// Milliseconds of the parts of one step, all layers together.
struct StepTimes {
  double append = 0;
  double attention = 0;
  double selection = 0;  ///< which rows a step reads; not part of attention here
  double ranking = 0;    ///< attention mass becomes ranker state, scores, the choice of what leaves
  double eviction = 0;   ///< rows move together
  double demotion = 0;   ///< older rows are encoded
  double step = 0;       ///< from the first append to the end of the step
};

/// The steps at one depth.
struct SyntheticSamples {
  int32_t depth = 0;
  double live_tokens = 0;  ///< per layer, that a step reads; mean over the steps
  /// Of pages of K and V when a step reads them, mean over the steps; with --kv-select the share of
  /// their rows that is read.
  double read_bytes = 0;
  int64_t kv_bytes = 0;          ///< rows, metadata and workspace after the last step
  int64_t kv_bytes_peak = 0;     ///< their largest sum, filling included
  StepTimes first;               ///< the first step: what is over the budget leaves, all at once
  std::vector<StepTimes> steps;  ///< the steps behind it
};

/// Fails with one line for options that a cache without a model cannot serve, for heads that do not
/// divide, and for a depth whose f16 rows need more memory than is free.
Result<void> check_synthetic(const SyntheticPlan& plan, int64_t free_bytes);

/// Units of work of the whole plan, for a progress line.
double synthetic_units(const SyntheticPlan& plan);

/// Runs the plan: each depth is filled anew in chunks, as prompts are, then its steps are timed one
/// by one. Requires: check_synthetic(). Fails with one line when memory is out.
Result<std::vector<SyntheticSamples>> run_synthetic(const SyntheticPlan& plan,
                                                    const KvKernels& kernels, ParallelFor& parallel,
                                                    const OnProgress& progress);

}  // namespace kvasir::eval
