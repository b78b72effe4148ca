// The words that the site is made of, and sentences that say nothing a task asks for.
//
// Knows tables and templates; knows neither pages nor tasks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "eval/agent/random.h"

namespace kvasir::eval::agent {

using Words = std::span<const std::string_view>;

/// A category of products, what one of them is called, and what it may be made of.
struct CategoryWords {
  std::string_view name;
  Words nouns;
  Words materials;
};

std::span<const CategoryWords> category_words();
Words shop_names();
Words brands();
Words adjectives();
Words colours();
Words first_names();
Words plain_words();

/// What stands on one help page: clauses "The LABEL is VALUE.", each with its own kind of value.
enum class ValueKind { kCode, kDays, kAmount, kCity, kWeekday, kPerson, kPhrase };
struct ClauseWords {
  std::string_view label;  ///< unique over all topics
  ValueKind kind;
};
struct TopicWords {
  std::string_view slug;
  std::string_view title;
  std::span<const ClauseWords> clauses;
};

std::span<const TopicWords> topic_words();

/// A value of that kind: "KX-48213", "21 days", "4.90 crowns", ...
std::string make_value(ValueKind kind, Random& random);

/// A code of two letters and `digits` digits: "KX-48213".
std::string make_code(Random& random, int32_t digits);

/// "84.90 crowns"
std::string amount(int32_t hundredths);

/// A paragraph of about 60 to 90 words about nothing.
std::string noise_paragraph(Random& random);

/// Two sentences of the same kind.
std::string noise_sentences(Random& random);

/// What a customer wrote: a name, stars and some sentences.
std::string review(Random& random, std::string_view noun);

}  // namespace kvasir::eval::agent
