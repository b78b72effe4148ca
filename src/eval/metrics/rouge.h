// ROUGE-L as LongBench counts it: the F of the Python package `rouge` 1.0.1.
//
// That package works on sentences (cut at every full stop) and on sets: the words of all longest
// common subsequences between a sentence of the reference and one of the prediction are united, and
// the size of that set is divided by the number of different words of each side. A word that occurs
// twice counts once. Its F is 2pr / (p + r + 1e-8), so a perfect answer gets a little less than 1.
#pragma once

#include <string_view>

#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// The best over the references, for texts with spaces between words. 0 for an empty prediction.
double score_rouge_l(std::string_view prediction, const Question& question);

/// The same for Chinese: each character is a word, and so is each run of ASCII letters and digits.
/// LongBench's own script cuts words with the Python package jieba, so its numbers differ.
double score_rouge_l_zh(std::string_view prediction, const Question& question);

}  // namespace kvasir::eval
