// How near a line of code is to the right one.
#pragma once

#include <string_view>

#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// 2 * common / (length + length) of the prediction's first line of code and the reference, where
/// common is the length of their longest common subsequence of characters; the best over the
/// references. A line with '#', '//' or '`' is taken for a comment or a fence and skipped.
///
/// LongBench's script rounds the same ratio to whole percents (package fuzzywuzzy). Where the
/// package python-Levenshtein is absent, fuzzywuzzy falls back on Python's difflib, whose ratio is
/// never higher and often lower.
double score_code_edit(std::string_view prediction, const Question& question);

}  // namespace kvasir::eval
