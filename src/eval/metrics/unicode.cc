#include "eval/metrics/unicode.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace kvasir::eval {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Range {
  char32_t first;
  char32_t last;
};

template <size_t N>
bool in_any(const std::array<Range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

// Beyond ASCII: controls and signs of Latin-1, combining marks, typographic punctuation, currency,
// arrows and mathematics, drawings, CJK punctuation, full-width signs,
// pictures.
constexpr std::array<Range, 22> kNoWord = {{
    {0x80, 0xA9},     {0xAB, 0xB1},       {0xB4, 0xB4},     {0xB6, 0xB8},     {0xBB, 0xBB},
    {0xBF, 0xBF},     {0xD7, 0xD7},       {0xF7, 0xF7},     {0x300, 0x36F},   {0x2000, 0x206F},
    {0x20A0, 0x20CF}, {0x2190, 0x245F},   {0x2500, 0x2BFF}, {0x3000, 0x3004}, {0x3008, 0x3020},
    {0x3030, 0x3030}, {0xFE00, 0xFE6F},   {0xFF00, 0xFF0F}, {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40},
    {0xFF5B, 0xFF65}, {0x1F000, 0x1FAFF},
}};

// The length of a sequence by its first byte; 0 for a byte that cannot come first.
size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

// One code point at the start of `text` and how many bytes it takes.
struct Decoded {
  char32_t c;
  size_t bytes;
};

Decoded decode_one(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = sequence_length(byte(0));
  if (length == 0 || length > text.size()) return {kReplacement, 1};
  if (length == 1) return {byte(0), 1};
  char32_t c = byte(0) & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {kReplacement, 1};
    c = c << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
  if (overlong || surrogate || c > 0x10FFFF) return {kReplacement, 1};
  return {c, length};
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string decoded;
  decoded.reserve(text.size());
  while (!text.empty()) {
    const Decoded one = decode_one(text);
    decoded.push_back(one.c);
    text.remove_prefix(one.bytes);
  }
  return decoded;
}

char32_t to_lower(char32_t c) {
  if (c >= U'A' && c <= U'Z') return c + 32;
  if (c < 0xC0) return c;
  if (c <= 0xDE) return c == 0xD7 ? c : c + 32;               // Latin-1
  if (c >= 0x391 && c <= 0x3A9 && c != 0x3A2) return c + 32;  // Greek
  if (c >= 0x400 && c <= 0x40F) return c + 80;                // Cyrillic
  if (c >= 0x410 && c <= 0x42F) return c + 32;                // Cyrillic
  if (c >= 0xFF21 && c <= 0xFF3A) return c + 32;              // full-width
  if (c == 0x178) return 0xFF;                                // Y with diaeresis
  if (c == 0x130) return U'i';                                // I with a dot
  const bool even_upper = (c >= 0x100 && c <= 0x137) || (c >= 0x14A && c <= 0x177) ||
                          (c >= 0x460 && c <= 0x481) || (c >= 0x1E00 && c <= 0x1E95) ||
                          (c >= 0x1EA0 && c <= 0x1EFF);
  if (even_upper && c != 0x131) return c | 1U;
  const bool odd_upper = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E);
  return odd_upper && c % 2 == 1 ? c + 1 : c;
}

std::u32string to_lower(std::u32string text) {
  for (char32_t& c : text) c = to_lower(c);
  return text;
}

bool is_space(char32_t c) {
  if (c <= 0x20) return (c >= 0x09 && c <= 0x0D) || c >= 0x1C;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return c > 0x20 && c < 0x7F && !(c >= U'0' && c <= U'9') && !(c >= U'A' && c <= U'Z') &&
         !(c >= U'a' && c <= U'z');
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return c == U'_' || (c > 0x20 && c < 0x7F && !is_ascii_punctuation(c));
  return c != kReplacement && !in_any(kNoWord, c);
}

bool is_chinese_punctuation(char32_t c) {
  static constexpr std::u32string_view kSigns =
      U"！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃《》「」『』【"
      U"】〔〕"
      U"〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏";
  return kSigns.find(c) != std::u32string_view::npos;
}

bool is_digit(char32_t c) { return (c >= U'0' && c <= U'9') || (c >= 0xFF10 && c <= 0xFF19); }

std::vector<std::u32string> split_words(std::u32string_view text) {
  std::vector<std::u32string> words;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > i) words.emplace_back(text.substr(i, end - i));
    i = end + 1;
  }
  return words;
}

std::vector<std::u32string_view> split_at(std::u32string_view text, char32_t separator) {
  std::vector<std::u32string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::u32string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

}  // namespace kvasir::eval
