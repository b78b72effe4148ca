#include "eval/tasks/values.h"

#include <algorithm>
#include <array>

namespace kvasir::eval {
namespace {

constexpr std::string_view kConsonants = "bdfghjklmnprstvz";
constexpr std::string_view kVowels = "aeiou";
constexpr size_t kSyllables = 3;  // all words have one length, so that none is a part of another
constexpr size_t kMadeUpWords = 512'000;  // (16 * 5)^3

struct KindName {
  ValueKind kind;
  std::string_view name;
  std::string_view noun;
};
constexpr std::array<KindName, 4> kKinds = {{
    {ValueKind::kNumber, "number", "number"},
    {ValueKind::kWord, "word", "word"},
    {ValueKind::kUuid, "uuid", "uuid"},
    {ValueKind::kDigits64, "digits64", "number"},
}};

const KindName& entry_of(ValueKind kind) { return kKinds[static_cast<size_t>(kind)]; }

bool is_plain(std::string_view word) {
  return word.size() >= 4 && word.size() <= 12 &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

std::string_view name_of(ValueKind kind) { return entry_of(kind).name; }

Result<ValueKind> find_value_kind(std::string_view name) {
  std::string known;
  for (const KindName& entry : kKinds) {
    if (entry.name == name) return entry.kind;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Error{"no kind of value '" + std::string(name) + "', expected one of: " + known};
}

std::string noun_of(ValueKind kind, bool several) {
  return std::string(entry_of(kind).noun) + (several ? "s" : "");
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

ValueSource::ValueSource(const SeededRandom& random, std::span<const std::string> words,
                         std::string_view haystack)
    : random_(random), has_list_(!words.empty()), haystack_(lower_case(haystack)) {
  for (const std::string& word : words) {
    if (is_plain(word)) words_.emplace_back(word);
  }
}

size_t ValueSource::word_count() const { return has_list_ ? words_.size() : kMadeUpWords; }

Result<std::string> ValueSource::word() {
  constexpr int32_t kTries = 1000;
  for (int32_t i = 0; i < kTries && word_count() > 0; ++i) {
    std::string word = any_word();
    if (given_.insert(word).second) return word;
  }
  return Error{"the list of words is too short: it has " + std::to_string(word_count()) +
               " words of 4 to 12 lower-case letters, " + std::to_string(given_.size()) +
               " of them were used and more are needed"};
}

Result<std::string> ValueSource::value(ValueKind kind) {
  constexpr int32_t kTries = 1000;
  if (kind == ValueKind::kWord && word_count() == 0) return word();
  for (int32_t i = 0; i < kTries; ++i) {
    std::string value = any_value(kind);
    if (is_new(value)) return value;
  }
  return Error{"cannot find another " + noun_of(kind, false) + " after " +
               std::to_string(given_.size()) + ": the list of words is too short for this length"};
}

std::string ValueSource::any_word() {
  if (has_list_) return std::string(words_[static_cast<size_t>(random_.below(words_.size()))]);
  std::string word;
  for (size_t i = 0; i < kSyllables; ++i) {
    word += random_.letters(1, kConsonants);
    word += random_.letters(1, kVowels);
  }
  return word;
}

std::string ValueSource::any_value(ValueKind kind) {
  constexpr size_t kFewDigits = 7;
  constexpr size_t kManyDigits = 64;
  switch (kind) {
    case ValueKind::kNumber:
      return random_.digits(kFewDigits);
    case ValueKind::kUuid:
      return random_.uuid();
    case ValueKind::kDigits64:
      return random_.digits(kManyDigits);
    case ValueKind::kWord:
      break;
  }
  std::string first = any_word();
  return first + "-" + any_word();
}

bool ValueSource::is_new(const std::string& text) {
  if (haystack_.find(text) != std::string::npos) return false;
  return given_.insert(text).second;
}

}  // namespace kvasir::eval
