// Haystacks: as many words as asked of a text in whole sentences, and needles between them.
//
// Knows texts only; how many words make a length in tokens is fit.h's business.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/tasks/random.h"

namespace kvasir::eval {

/// The noise that is repeated where no text is given: plain sentences that say nothing.
std::string_view noise_text();

/// The sentences of a text, white space made single spaces. A sentence ends with . ! or ? (and
/// closing quotes) before white space, or after 60 words, so that texts without full stops work.
std::vector<std::string> split_sentences(std::string_view text);

/// Words are what white space separates.
int64_t count_words(std::string_view text);

/// The text up to the end of its `words`-th word, or all of it.
std::string_view first_words(std::string_view text, int64_t words);

/// Sentences without end: those of a text from a seeded place, from the start again when it ends.
class SentenceSource {
 public:
  /// Requires: `text` has a word in it.
  SentenceSource(std::string_view text, SeededRandom& random);

  /// `words` words in sentences; the last one is cut and closed with a full stop if need be.
  std::vector<std::string> take(int64_t words) const;

 private:
  std::vector<std::string> sentences_;
  std::vector<int64_t> words_;  // of each sentence
  size_t start_;
};

/// A sentence and where it belongs.
struct Placed {
  std::string sentence;
  double depth = 0;  ///< share of the haystack, in bytes, that stands before it
};

/// The sentences with `needles` at the sentence boundaries nearest to their depths, `separator`
/// between any two. Needles of one boundary keep their order. Requires: depths ascend.
std::string insert_needles(std::span<const std::string> sentences, std::span<const Placed> needles,
                           std::string_view separator);

}  // namespace kvasir::eval
