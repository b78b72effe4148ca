// Scores of short answers: a class, a letter, a number, a boxed result.
#pragma once

#include <string_view>

#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// Which of question.classes occur in the prediction, less those that are only a part of the right
/// one's name: 1 / their number if the right one is among them, else 0. The best over the
/// references.
double score_class_match(std::string_view prediction, const Question& question);

/// The share of numbers in the prediction that are the N of a reference "Paragraph N".
double score_retrieval(std::string_view prediction, const Question& question);

/// The share of numbers in the prediction that are the N of a reference "段落N".
double score_retrieval_zh(std::string_view prediction, const Question& question);

/// The share of numbers in the prediction that equal the reference.
double score_count(std::string_view prediction, const Question& question);

/// 1 if the first number of the prediction equals a reference. Against a whole number the decimals
/// are cut off.
double score_first_number(std::string_view prediction, const Question& question);

/// 1 if the prediction names the right letter A to D, or is a reference word by word. The letter is
/// the one it begins with, else the first one alone after "answer is", "answer:" or "option is",
/// else the first one that stands alone.
double score_choice(std::string_view prediction, const Question& question);

/// 1 if the last complete \boxed{...} of the prediction equals a reference: as whole numbers where
/// both are, so that 073 equals 73, else as text without spaces, dollars and \left, \right.
double score_boxed(std::string_view prediction, const Question& question);

}  // namespace kvasir::eval
