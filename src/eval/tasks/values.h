// Words, numbers and UUIDs, each given once: keys and values of needles and pairs.
//
// Knows a random stream and, if the caller has one, a list of words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "eval/tasks/random.h"

namespace kvasir::eval {

enum class ValueKind {
  kNumber,    ///< 7 digits
  kWord,      ///< two words with a hyphen
  kUuid,      ///< version 4
  kDigits64,  ///< 64 digits
};

/// "number", "word", "uuid", "digits64".
std::string_view name_of(ValueKind kind);
Result<ValueKind> find_value_kind(std::string_view name);

/// What a sentence calls the value: "number", "word", "uuid"; with `several` their plural.
std::string noun_of(ValueKind kind, bool several);

/// ASCII letters in lower case, the rest as it is.
std::string lower_case(std::string_view text);

/// Draws that never repeat.
class ValueSource {
 public:
  /// Words come from `words` where they are plain (4 to 12 lower-case ASCII letters), and are made
  /// up of three syllables if `words` is empty. `haystack` is a text in which no drawn value may
  /// occur, whatever the case.
  ValueSource(const SeededRandom& random, std::span<const std::string> words,
              std::string_view haystack);

  /// How many different single words there are.
  size_t word_count() const;

  /// One word. Fails once most of the words of the list have been given.
  Result<std::string> word();

  /// One value. Fails if no further one can be found.
  Result<std::string> value(ValueKind kind);

  SeededRandom& random() { return random_; }

 private:
  std::string any_word();
  std::string any_value(ValueKind kind);
  bool is_new(const std::string& text);

  SeededRandom random_;
  std::vector<std::string_view> words_;  // empty: made-up words
  bool has_list_;
  std::string haystack_;  // in lower case
  std::unordered_set<std::string> given_;
};

}  // namespace kvasir::eval
