// One cell of the needle grid: a value hidden at a given depth of a text of a given length.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "eval/tasks/material.h"
#include "eval/tasks/sample.h"
#include "eval/tasks/values.h"

namespace kvasir::eval {

struct NeedleRequest {
  int32_t length = 4096;  ///< tokens of instructions, context and question
  /// Share of the haystack that stands before the needle, in percent, counted from the START.
  /// CONF-KV's heat map counts from the end: its 10 % is 90 here.
  double depth_percent = 50;
  uint64_t seed = 1;
  /// Short answers look fine under eviction, as the first answer token still comes from the whole
  /// prompt; UUIDs and 64 digits do not.
  ValueKind kind = ValueKind::kNumber;
};

/// Task "needle", tags "kind" and "depth" among others. The haystack is `material.essay`, or
/// repeated noise if that is empty. Fails with one line if a number is out of its range.
Result<Sample> make_needle_sample(const NeedleRequest& request, const Material& material,
                                  const CountTokens& count_tokens);

}  // namespace kvasir::eval
