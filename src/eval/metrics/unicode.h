// Texts as code points, and what a code point is: enough of Unicode to compare answers.
//
// Knows ASCII, Latin, Greek, Cyrillic and full-width letters by heart; any other code point is a
// letter without cases unless it lies in a range of punctuation. Independent of the locale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvasir::eval {

/// The code points of `text`. A byte that is no part of valid UTF-8 becomes U+FFFD.
std::u32string decode_utf8(std::string_view text);

/// Lower case, one code point for one.
char32_t to_lower(char32_t c);
std::u32string to_lower(std::u32string text);

bool is_space(char32_t c);
bool is_ascii_punctuation(char32_t c);

/// A letter, a digit or the underscore: what a word consists of.
bool is_word_character(char32_t c);

/// Punctuation of Chinese texts, full-width and typographic.
bool is_chinese_punctuation(char32_t c);

/// A decimal digit, ASCII or full-width.
bool is_digit(char32_t c);

/// The pieces between white space.
std::vector<std::u32string> split_words(std::u32string_view text);

/// The pieces between separators, empty ones too: one more than there are separators.
std::vector<std::u32string_view> split_at(std::u32string_view text, char32_t separator);

}  // namespace kvasir::eval
