#include "eval/metrics/overlap.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "eval/metrics/unicode.h"

namespace kvasir::eval {
namespace {

bool is_article(std::u32string_view word) {
  return word == U"a" || word == U"an" || word == U"the";
}

// Lower case without punctuation, cut at white space; articles go even where they touch a sign.
std::vector<std::u32string> normalized_words(std::string_view text) {
  std::u32string letters = to_lower(decode_utf8(text));
  std::erase_if(letters, is_ascii_punctuation);
  std::u32string kept;
  for (size_t i = 0; i < letters.size();) {
    size_t end = i;
    while (end < letters.size() && is_word_character(letters[end])) ++end;
    const auto word = std::u32string_view(letters).substr(i, end - i);
    kept += is_article(word) ? std::u32string_view(U" ") : word;
    if (end < letters.size()) kept.push_back(letters[end]);
    i = end + 1;
  }
  return split_words(kept);
}

std::u32string normalized_characters(std::string_view text) {
  std::u32string letters = to_lower(decode_utf8(text));
  std::erase_if(letters, [](char32_t c) {
    return is_space(c) || is_ascii_punctuation(c) || is_chinese_punctuation(c);
  });
  return letters;
}

// Prediction and reference as sequences of anything that compares.
template <typename Sequence>
double f1(const Sequence& prediction, const Sequence& reference) {
  std::map<typename Sequence::value_type, size_t> left;
  for (const auto& piece : reference) ++left[piece];
  size_t common = 0;
  for (const auto& piece : prediction) {
    const auto found = left.find(piece);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(prediction.size());
  const double recall = static_cast<double>(common) / static_cast<double>(reference.size());
  return 2 * precision * recall / (precision + recall);
}

template <typename Normalize>
double best_f1(std::string_view prediction, const Question& question, Normalize normalize) {
  const auto predicted = normalize(prediction);
  double best = 0;
  for (const auto& reference : question.references) {
    best = std::max(best, f1(predicted, normalize(reference)));
  }
  return best;
}

size_t count_found(std::string_view prediction, const Question& question) {
  const std::u32string text = to_lower(decode_utf8(prediction));
  const auto found = std::count_if(
      question.references.begin(), question.references.end(), [&](const std::string& reference) {
        return !reference.empty() &&
               text.find(to_lower(decode_utf8(reference))) != std::u32string::npos;
      });
  return static_cast<size_t>(found);
}

}  // namespace

double score_all_found(std::string_view prediction, const Question& question) {
  if (question.references.empty()) return 0;
  return static_cast<double>(count_found(prediction, question)) /
         static_cast<double>(question.references.size());
}

double score_any_found(std::string_view prediction, const Question& question) {
  return count_found(prediction, question) > 0 ? 1 : 0;
}

double score_f1(std::string_view prediction, const Question& question) {
  return best_f1(prediction, question, normalized_words);
}

double score_f1_zh(std::string_view prediction, const Question& question) {
  return best_f1(prediction, question, normalized_characters);
}

double score_exact(std::string_view prediction, const Question& question) {
  const auto predicted = normalized_words(prediction);
  const auto& references = question.references;
  return std::any_of(references.begin(), references.end(), [&](const std::string& reference) {
    return normalized_words(reference) == predicted;
  });
}

}  // namespace kvasir::eval
