// Learning a made-up classification from as many examples as fit.
//
// An item is a made-up stem and one of twelve endings, "tobavi-ren"; the ending alone decides the
// label. Which ending means which label is drawn from the seed, so only the examples tell.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

struct ManyShotRequest {
  int32_t length = 4096;  ///< tokens of instructions, context and first question
  int32_t questions = 5;  ///< 1 to 12, each with another ending and a new stem
  uint64_t seed = 1;
};

/// Task "many_shot", metric "class_match": the reference is the right label, classes are all six.
/// Every ending occurs at least twice, and as often as any other to within one. Fails with one
/// line if the length is too small for that.
Result<Sample> make_many_shot_sample(const ManyShotRequest& request,
                                     const CountTokens& count_tokens);

}  // namespace kvasir::eval
