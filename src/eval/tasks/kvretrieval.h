// SCBench's key-value retrieval: a JSON object of random pairs, several keys asked for in turn.
//
// Nothing in the context says what will be asked, and no pair can be guessed from another, so what
// a cache drops is lost. The shape is SCBench's, the words are our own.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

struct KeyValueRequest {
  int32_t length = 4096;  ///< tokens of instructions, context and first question
  int32_t questions = 5;  ///< each about another key, spread over the context, in mixed order
  uint64_t seed = 1;
};

/// Task "kv_retrieval". The length is hit as near as whole pairs come. Fails with one line if the
/// length is too small for as many pairs as questions.
Result<Sample> make_key_value_sample(const KeyValueRequest& request,
                                     const CountTokens& count_tokens);

}  // namespace kvasir::eval
