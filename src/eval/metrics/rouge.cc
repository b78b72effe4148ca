#include "eval/metrics/rouge.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "eval/metrics/unicode.h"

namespace kvasir::eval {
namespace {

using Word = int32_t;  // a number for each different word
using Sentence = std::vector<Word>;

// Numbers words, equal ones alike.
class Vocabulary {
 public:
  Word number(const std::u32string& word) {
    return numbers_.try_emplace(word, static_cast<Word>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::u32string, Word> numbers_;
};

// The sentences between full stops. One of white space alone has the empty word, as in the package.
std::vector<Sentence> sentences(std::u32string_view text, Vocabulary& vocabulary) {
  std::vector<Sentence> found;
  for (const auto piece : split_at(text, U'.')) {
    if (piece.empty()) continue;
    Sentence sentence;
    for (const auto& word : split_words(piece)) sentence.push_back(vocabulary.number(word));
    if (sentence.empty()) sentence.push_back(vocabulary.number({}));
    found.push_back(std::move(sentence));
  }
  return found;
}

// Adds the words of one longest common subsequence. Among several the choice decides the set; it is
// made as in the package: from the end, the reference gives way only where that is strictly better.
void add_common(const Sentence& reference, const Sentence& predicted, std::set<Word>& common) {
  const size_t width = predicted.size() + 1;
  std::vector<uint32_t> length((reference.size() + 1) * width, 0);
  const auto at = [&](size_t i, size_t j) -> uint32_t& { return length[i * width + j]; };
  for (size_t i = 1; i <= reference.size(); ++i) {
    for (size_t j = 1; j <= predicted.size(); ++j) {
      at(i, j) = reference[i - 1] == predicted[j - 1] ? at(i - 1, j - 1) + 1
                                                      : std::max(at(i - 1, j), at(i, j - 1));
    }
  }
  size_t i = reference.size();
  size_t j = predicted.size();
  while (i > 0 && j > 0) {
    if (reference[i - 1] == predicted[j - 1]) {
      common.insert(reference[i - 1]);
      --i;
      --j;
    } else if (at(i - 1, j) > at(i, j - 1)) {
      --i;
    } else {
      --j;
    }
  }
}

double different_words(const std::vector<Sentence>& text) {
  std::set<Word> words;
  for (const auto& sentence : text) words.insert(sentence.begin(), sentence.end());
  return static_cast<double>(words.size());
}

double rouge_l(std::u32string_view predicted_text, std::u32string_view reference_text) {
  Vocabulary vocabulary;
  const auto predicted = sentences(predicted_text, vocabulary);
  const auto reference = sentences(reference_text, vocabulary);
  if (predicted.empty() || reference.empty()) return 0;
  std::set<Word> common;
  for (const auto& of_reference : reference) {
    for (const auto& of_prediction : predicted) add_common(of_reference, of_prediction, common);
  }
  const double recall = static_cast<double>(common.size()) / different_words(reference);
  const double precision = static_cast<double>(common.size()) / different_words(predicted);
  return 2 * (precision * recall / (precision + recall + 1e-8));
}

// Spaces around everything but runs of ASCII letters and digits.
std::u32string spaced(std::u32string_view text) {
  std::u32string result;
  for (const char32_t c : text) {
    const bool joins = c < 0x80 && c != U'_' && is_word_character(c);
    if (!joins) result.push_back(U' ');
    result.push_back(c);
    if (!joins) result.push_back(U' ');
  }
  return result;
}

template <typename Prepare>
double best(std::string_view prediction, const Question& question, Prepare prepare) {
  const std::u32string predicted = prepare(decode_utf8(prediction));
  double best = 0;
  for (const auto& reference : question.references) {
    best = std::max(best, rouge_l(predicted, prepare(decode_utf8(reference))));
  }
  return best;
}

}  // namespace

double score_rouge_l(std::string_view prediction, const Question& question) {
  return best(prediction, question, [](std::u32string text) { return text; });
}

double score_rouge_l_zh(std::string_view prediction, const Question& question) {
  return best(prediction, question, spaced);
}

}  // namespace kvasir::eval
