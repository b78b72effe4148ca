#include "eval/metrics/unicode.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace kvasir::eval {
namespace {

using std::string_view_literals::operator""sv;

TEST(Decode, ReadsEveryLength) {
  EXPECT_EQ(decode_utf8("aé段😀"), U"aé段😀");
  EXPECT_EQ(decode_utf8(""), U"");
}

TEST(Decode, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(decode_utf8("a\x80z"), U"a\uFFFDz");                  // a byte that continues nothing
  EXPECT_EQ(decode_utf8("\xE6\xAE"), U"\uFFFD\uFFFD");            // cut inside a character
  EXPECT_EQ(decode_utf8("\xC0\xAF"), U"\uFFFD\uFFFD");            // longer than needed
  EXPECT_EQ(decode_utf8("\xED\xA0\x80"), U"\uFFFD\uFFFD\uFFFD");  // half of a pair
  EXPECT_EQ(decode_utf8("\xF4\x90\x80\x80").front(), U'\uFFFD');  // past the last code point
  EXPECT_EQ(decode_utf8("\xE0\x80\x80"), U"\uFFFD\uFFFD\uFFFD");  // longer than needed
}

TEST(Lower, KnowsTheCommonAlphabets) {
  EXPECT_EQ(to_lower(std::u32string(U"AZ ÀÞ× ĀŽ ΑΩ ЀЯ ＡＺ 段09")), U"az àþ× āž αω ѐя ａｚ 段09");
  EXPECT_EQ(to_lower(std::u32string(U"ÉCOLE МИР Ωmega Łódź Ÿ")), U"école мир ωmega łódź ÿ");
}

TEST(Characters, AreToldApart) {
  for (const char32_t c : U"aZ5_é段ωя½"sv) EXPECT_TRUE(is_word_character(c)) << uint32_t{c};
  for (const char32_t c : U" .-“–…€«×。　＊😀"sv) EXPECT_FALSE(is_word_character(c)) << uint32_t{c};
  for (const char32_t c : U" \t\n\u00A0\u2009\u3000"sv) EXPECT_TRUE(is_space(c)) << uint32_t{c};
  for (const char32_t c : U"a_\u200B"sv) EXPECT_FALSE(is_space(c)) << uint32_t{c};
  for (const char32_t c : U"，。《》“”…（）"sv) EXPECT_TRUE(is_chinese_punctuation(c));
  EXPECT_FALSE(is_chinese_punctuation(U'段'));
  EXPECT_TRUE(is_digit(U'７') && is_digit(U'0') && !is_digit(U'七') && !is_digit(U'a'));
}

TEST(Split, AtSpacesAndSeparators) {
  EXPECT_EQ(split_words(U"  a\tbc \u3000 d\n"), (std::vector<std::u32string>{U"a", U"bc", U"d"}));
  EXPECT_TRUE(split_words(U" \n").empty());
  EXPECT_EQ(split_at(U"a..b.", U'.'), (std::vector<std::u32string_view>{U"a", U"", U"b", U""}));
  EXPECT_EQ(split_at(U"", U'.').size(), 1U);
}

}  // namespace
}  // namespace kvasir::eval
