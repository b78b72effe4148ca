// The generators behind RULER's table that are not needles in a haystack.
#pragma once

#include <string>

#include "eval/tasks/ruler.h"

namespace kvasir::eval {

/// "TASK-LENGTH-SEED". Random draws depend on task and seed alone, so that the smallest length
/// named by a message is one for the same sample.
std::string ruler_id(const RulerRequest& request);

/// A sample with everything but its context. `question` still lacks an id.
Sample ruler_frame(const RulerRequest& request, std::string instructions, Question question);

/// Variable tracking: one value handed on over four hops, hidden in noise.
Result<Sample> make_variable_tracking(const RulerRequest& request);

/// Common words: ten words occur 30 times among others that occur three times (6 and 1 below 4096
/// tokens).
Result<Sample> make_common_words(const RulerRequest& request);

/// Frequent words: coded words whose frequency falls with the square of their rank; rank 1 is dots.
Result<Sample> make_frequent_words(const RulerRequest& request);

/// A question with its paragraphs among others, from `source`.
Result<Sample> make_document_question(const RulerRequest& request, const QaSource* source);

}  // namespace kvasir::eval
