// Paired speed measurements: two sessions in one process, timed in turns.
//
// Absolute times drift with whatever else the machine does; what two neighbours in time have in
// common cancels in their ratio. So each repetition times A and then B (and B before A in every
// other one), and ratios are taken inside the pair before the median is.
// Knows two sessions and depths; knows nothing of devices, flags and tables. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/session.h"

namespace kvasir::eval {

struct PairedPlan {
  std::vector<int32_t> depths = {0};  ///< tokens already in the cache, ascending
  int32_t prefill = 512;              ///< tokens of one measured prompt chunk; 0: none
  int32_t decode = 32;                ///< tokens of one measured generation; 0: none
  int32_t repetitions = 5;
  uint64_t seed = 1;    ///< of the tokens
  bool refill = false;  ///< start each depth from an empty cache
};

/// Seconds of one kind of work at one depth, pair by pair.
struct PairedSamples {
  int32_t depth = 0;
  bool is_prefill = false;
  int32_t tokens = 0;     ///< of each sample
  std::vector<double> a;  ///< [repetitions] seconds
  std::vector<double> b;  ///< [repetitions] seconds
};

/// Adds the samples of a further round of the same plan to `all`. Requires: `all` is empty, or
/// holds the same tests in the same order.
void append_samples(std::vector<PairedSamples>& all, const std::vector<PairedSamples>& round);

/// Median tokens per second of one side.
double tokens_per_second(const PairedSamples& samples, const std::vector<double>& seconds);

/// Median and range of b's speed over a's, pair by pair.
struct Ratio {
  double median = 0;
  double low = 0;
  double high = 0;
};
Ratio speed_ratio(const PairedSamples& samples);

/// Called after each piece of work with the units it was worth and the name of what comes next.
using OnProgress = std::function<void(double units, const std::string& next)>;

/// Units of work of the whole plan, for a progress line.
double plan_units(const PairedPlan& plan);

/// Runs the plan: at each depth both caches are filled, then prompt chunks and generations are
/// timed in turns after one untimed round each. Measured tokens are removed again before the next
/// sample, so that each starts at its depth exactly. Fails with one line if a session does.
Result<std::vector<PairedSamples>> run_paired(Session& a, Session& b, const PairedPlan& plan,
                                              const OnProgress& progress);

}  // namespace kvasir::eval
