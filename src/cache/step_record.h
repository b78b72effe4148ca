// What one step did to one stream: the content of a trace line and the input of statistics.
#pragma once

#include <cstdint>

#include "policy/confidence.h"

namespace kvasir {

/// One step of one stream, taken after end_step.
struct StepRecord {
  int64_t step = 0;  ///< counts the steps of the stream, from 0
  int32_t stream = 0;
  int32_t pos = 0;              ///< position of the newest token
  int32_t token = -1;           ///< its id; -1: not known
  bool has_confidence = false;  ///< false: no logits were seen, c is null in the trace
  Confidence confidence;
  bool has_budget = false;  ///< false: prefill, or a policy without a budget
  int32_t budget = 0;       ///< of layer 0
  int32_t live_min = 0;     ///< live tokens over the layers, after end_step
  double live_mean = 0;
  int32_t live_max = 0;
  int64_t bytes_f16 = 0;      ///< allocated bytes of the stream's f16 tier
  int64_t bytes_demoted = 0;  ///< and of its compressed tier
  int64_t evicted = 0;        ///< token rows dropped in this step, summed over the layers
};

}  // namespace kvasir
