// Paired measurements of a model, stock against Kvasir: opens the sessions, in both orders, and
// says what the caches hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/measure/measure_flags.h"
#include "eval/measure/paired.h"

namespace kvasir::eval {

struct Rounds {
  std::vector<PairedSamples> samples;
  int64_t kv_bytes_peak = 0;  ///< of Kvasir's caches; 0: not known
};

/// Both rounds of flags.plan on the model at `path`, half of the pairs in each. Requires: the
/// device's options are set. Fails with one line.
Result<Rounds> run_rounds(const std::string& path, const MeasureFlags& flags);

}  // namespace kvasir::eval
