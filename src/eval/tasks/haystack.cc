#include "eval/tasks/haystack.h"

#include <cassert>
#include <cmath>

namespace kvasir::eval {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";
constexpr int64_t kLongestSentence = 60;  // words

bool ends_sentence(std::string_view word) {
  const size_t last = word.find_last_not_of("\"')]}*_");
  return last != std::string_view::npos &&
         std::string_view(".!?").find(word[last]) != std::string_view::npos;
}

// The next word from `at` on, and `at` behind it; empty at the end.
std::string_view next_word(std::string_view text, size_t& at) {
  const size_t begin = text.find_first_not_of(kSpace, at);
  if (begin == std::string_view::npos) {
    at = text.size();
    return {};
  }
  const size_t end = text.find_first_of(kSpace, begin);
  at = end == std::string_view::npos ? text.size() : end;
  return text.substr(begin, at - begin);
}

// A sentence cut short, closed again.
std::string cut_sentence(std::string_view sentence, int64_t words) {
  std::string cut(first_words(sentence, words));
  while (!cut.empty() && std::string_view(",;:-").find(cut.back()) != std::string_view::npos) {
    cut.pop_back();
  }
  if (!ends_sentence(cut)) cut += '.';
  return cut;
}

}  // namespace

std::string_view noise_text() {
  return "Rain fell on the roof. A cart rolled down the lane. The lamp stayed lit all night. "
         "Bread cooled on the sill. The brook ran slow and clear. Birds settled on the wire. "
         "The gate swung shut. Dust lay on the shelf.";
}

std::vector<std::string> split_sentences(std::string_view text) {
  std::vector<std::string> sentences;
  std::string sentence;
  int64_t words = 0;
  size_t at = 0;
  for (auto word = next_word(text, at); !word.empty(); word = next_word(text, at)) {
    if (words > 0) sentence += ' ';
    sentence += word;
    if (++words < kLongestSentence && !ends_sentence(word)) continue;
    sentences.push_back(std::move(sentence));
    sentence.clear();
    words = 0;
  }
  if (words > 0) sentences.push_back(std::move(sentence));
  return sentences;
}

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  size_t at = 0;
  while (!next_word(text, at).empty()) ++words;
  return words;
}

std::string_view first_words(std::string_view text, int64_t words) {
  size_t at = 0;
  while (words > 0 && !next_word(text, at).empty()) --words;
  return text.substr(0, at);
}

SentenceSource::SentenceSource(std::string_view text, SeededRandom& random)
    : sentences_(split_sentences(text)) {
  assert(!sentences_.empty());
  for (const std::string& sentence : sentences_) words_.push_back(count_words(sentence));
  start_ = static_cast<size_t>(random.below(sentences_.size()));
}

std::vector<std::string> SentenceSource::take(int64_t words) const {
  std::vector<std::string> taken;
  for (size_t i = start_; words > 0; i = (i + 1) % sentences_.size()) {
    const bool whole = words_[i] <= words;
    taken.push_back(whole ? sentences_[i] : cut_sentence(sentences_[i], words));
    words -= words_[i];
  }
  return taken;
}

std::string insert_needles(std::span<const std::string> sentences, std::span<const Placed> needles,
                           std::string_view separator) {
  size_t total = 0;
  for (const std::string& sentence : sentences) total += sentence.size() + separator.size();
  std::string context;
  context.reserve(total);
  const auto append = [&](std::string_view sentence) {
    if (!context.empty()) context += separator;
    context += sentence;
  };

  size_t needle = 0;
  size_t before = 0;  // bytes of the sentences that have been appended
  for (const std::string& sentence : sentences) {
    const size_t after = before + sentence.size() + separator.size();
    // This boundary is the nearest one until the target is closer to the next.
    const double middle = static_cast<double>(before + after) / 2;
    while (needle < needles.size() && needles[needle].depth * static_cast<double>(total) < middle) {
      append(needles[needle++].sentence);
    }
    append(sentence);
    before = after;
  }
  while (needle < needles.size()) append(needles[needle++].sentence);
  return context;
}

}  // namespace kvasir::eval
