#include "eval/metrics/labels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "eval/metrics/overlap.h"
#include "eval/metrics/unicode.h"

namespace kvasir::eval {
namespace {

// Every run of digits.
std::vector<std::u32string> numbers_in(std::u32string_view text) {
  std::vector<std::u32string> numbers;
  bool inside = false;
  for (const char32_t c : text) {
    if (is_digit(c)) {
      if (!inside) numbers.emplace_back();
      numbers.back().push_back(c);
    }
    inside = is_digit(c);
  }
  return numbers;
}

double share_equal(const std::vector<std::u32string>& numbers, std::u32string_view right) {
  if (numbers.empty() || right.empty()) return 0;
  const auto equal = std::count(numbers.begin(), numbers.end(), right);
  return static_cast<double>(equal) / static_cast<double>(numbers.size());
}

// The digits right behind the first `before` that has some.
std::u32string number_behind(std::u32string_view text, std::u32string_view before) {
  for (size_t at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
    size_t end = at + before.size();
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end > at + before.size()) {
      return std::u32string(text.substr(at + before.size(), end - at - before.size()));
    }
  }
  return {};
}

double paragraph_share(std::string_view prediction, const Question& question,
                       std::u32string_view before) {
  const auto numbers = numbers_in(decode_utf8(prediction));
  double best = 0;
  for (const auto& reference : question.references) {
    best = std::max(best, share_equal(numbers, number_behind(decode_utf8(reference), before)));
  }
  return best;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// The first number of `text`, with its sign if that follows no letter and no digit, and decimals.
std::optional<double> first_number(std::string_view text) {
  const auto digit = std::find_if(text.begin(), text.end(), is_ascii_digit);
  if (digit == text.end()) return std::nullopt;
  auto start = static_cast<size_t>(digit - text.begin());
  const bool minus = start > 0 && text[start - 1] == '-';
  const bool sign =
      minus && (start == 1 || std::isalnum(static_cast<unsigned char>(text[start - 2])) == 0);
  if (sign) --start;
  double value = 0;
  std::from_chars(text.data() + start, text.data() + text.size(), value, std::chars_format::fixed);
  return value;
}

// The whole number that all of `text` is, without leading zeros; empty if it is none.
std::string whole_number(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_ascii_digit)) return {};
  while (text.size() > 1 && text.front() == '0') text.remove_prefix(1);
  std::string number(negative && text != "0" ? 1 : 0, '-');
  return number.append(text);
}

// The content of the last \boxed{...} whose braces close.
std::optional<std::string_view> last_boxed(std::string_view text) {
  static constexpr std::string_view kOpen = "\\boxed{";
  for (size_t at = text.rfind(kOpen); at != text.npos;
       at = at == 0 ? text.npos : text.rfind(kOpen, at - 1)) {
    const size_t start = at + kOpen.size();
    int depth = 1;
    for (size_t i = start; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return text.substr(start, i - start);
    }
  }
  return std::nullopt;
}

std::string without(std::string text, std::string_view part) {
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
  return text;
}

std::string plain_formula(std::string_view formula) {
  std::string text(formula);
  for (const std::string_view part : {"\\left", "\\right", "\\,", "\\!", "\\;", "$", "\\ "}) {
    text = without(std::move(text), part);
  }
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  const std::string number = whole_number(without(text, ","));
  return number.empty() ? text : number;
}

bool stands_alone(std::u32string_view text, size_t i) {
  const bool before = i > 0 && is_word_character(text[i - 1]);
  const bool behind = i + 1 < text.size() && is_word_character(text[i + 1]);
  return !before && !behind;
}

// The position of the first A to D that is a word of its own, from `start` on.
size_t find_letter(std::u32string_view text, size_t start) {
  for (size_t i = start; i < text.size(); ++i) {
    if (text[i] >= U'A' && text[i] <= U'D' && stands_alone(text, i)) return i;
  }
  return text.npos;
}

// The letter that an answer to a multiple-choice question means, or 0.
char32_t chosen_letter(std::u32string_view text) {
  size_t first = 0;
  while (first < text.size() && (is_space(text[first]) || text[first] == U'(')) ++first;
  if (find_letter(text, first) == first && first < text.size()) return text[first];
  const std::u32string lower = to_lower(std::u32string(text));
  static constexpr std::array<std::u32string_view, 3> kBefore = {U"answer is", U"answer:",
                                                                 U"option is"};
  for (const auto before : kBefore) {
    const size_t at = lower.find(before);
    if (at == lower.npos) continue;
    const size_t letter = find_letter(text, at + before.size());
    if (letter != text.npos) return text[letter];
  }
  const size_t letter = find_letter(text, 0);
  return letter == text.npos ? 0 : text[letter];
}

double class_share(std::string_view prediction, const std::vector<std::string>& classes,
                   const std::string& right) {
  size_t matched = 0;
  bool right_matched = false;
  for (const auto& name : classes) {
    if (prediction.find(name) == prediction.npos) continue;
    if (name == right) right_matched = true;
    if (name == right || right.find(name) == right.npos) ++matched;
  }
  return right_matched ? 1 / static_cast<double>(matched) : 0;
}

}  // namespace

double score_class_match(std::string_view prediction, const Question& question) {
  double best = 0;
  for (const auto& reference : question.references) {
    best = std::max(best, class_share(prediction, question.classes, reference));
  }
  return best;
}

double score_retrieval(std::string_view prediction, const Question& question) {
  return paragraph_share(prediction, question, U"Paragraph ");
}

double score_retrieval_zh(std::string_view prediction, const Question& question) {
  return paragraph_share(prediction, question, U"段落");
}

double score_count(std::string_view prediction, const Question& question) {
  const auto numbers = numbers_in(decode_utf8(prediction));
  double best = 0;
  for (const auto& reference : question.references) {
    best = std::max(best, share_equal(numbers, decode_utf8(reference)));
  }
  return best;
}

double score_first_number(std::string_view prediction, const Question& question) {
  const auto found = first_number(prediction);
  if (!found) return 0;
  const auto& references = question.references;
  return std::any_of(references.begin(), references.end(), [&](const std::string& reference) {
    const auto right = first_number(reference);
    if (!right) return false;
    const bool whole = reference.find('.') == std::string::npos;
    return (whole ? std::trunc(*found) : *found) == *right;
  });
}

double score_choice(std::string_view prediction, const Question& question) {
  if (score_exact(prediction, question) == 1) return 1;
  const char32_t letter = chosen_letter(decode_utf8(prediction));
  const auto& references = question.references;
  return std::any_of(references.begin(), references.end(), [&](const std::string& reference) {
    return reference.size() == 1 && static_cast<char32_t>(reference.front()) == letter;
  });
}

double score_boxed(std::string_view prediction, const Question& question) {
  const auto boxed = last_boxed(prediction);
  if (!boxed) return 0;
  const std::string found = plain_formula(*boxed);
  const auto& references = question.references;
  return std::any_of(references.begin(), references.end(), [&](const std::string& reference) {
    return !found.empty() && plain_formula(reference) == found;
  });
}

}  // namespace kvasir::eval
