// Scores by what a prediction and a reference share: whole references, words, characters.
#pragma once

#include <string_view>

#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// The share of references that occur in the prediction, whatever the case. 0 without references.
double score_all_found(std::string_view prediction, const Question& question);

/// 1 if any reference occurs in the prediction, whatever the case.
double score_any_found(std::string_view prediction, const Question& question);

/// F1 of the words that prediction and reference share, each counted as often as both have it; the
/// best over the references. Lower case, without ASCII punctuation and the articles a, an, the.
double score_f1(std::string_view prediction, const Question& question);

/// F1 of the characters that prediction and reference share, the best over the references. Lower
/// case, without punctuation and white space. SCBench counts like this; LongBench's own script
/// cuts Chinese texts into words with the Python package jieba, so its numbers differ.
double score_f1_zh(std::string_view prediction, const Question& question);

/// 1 if the prediction equals a reference once both are normalised as for F1.
double score_exact(std::string_view prediction, const Question& question);

}  // namespace kvasir::eval
