// Toy tokenizers, an essay and files of questions for the tests of this folder.
#pragma once

#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "eval/tasks/qa_source.h"
#include "eval/tasks/random.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// A token for each word of letters and digits and for each other character but white space.
inline int32_t count_words_and_marks(std::string_view text) {
  int32_t tokens = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    const bool is_space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!is_space && !(is_word && in_word)) ++tokens;
    in_word = is_word;
  }
  return tokens;
}

/// A token for each four bytes.
inline int32_t count_bytes(std::string_view text) {
  return static_cast<int32_t>((text.size() + 3) / 4);
}

/// A sentence of `words` made-up words.
inline std::string made_up_sentence(SeededRandom& random, uint64_t words) {
  std::string sentence;
  for (uint64_t i = 0; i < words; ++i) {
    if (i > 0) sentence += ' ';
    sentence += random.letters(2 + random.below(7), "etaoinsrhldcu");
  }
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence + ".";
}

/// About 9000 words in sentences of 6 to 20.
inline std::string made_up_essay() {
  SeededRandom random(7, "essay");
  std::string essay;
  for (int i = 0; i < 700; ++i) essay += made_up_sentence(random, 6 + random.below(15)) + "\n";
  return essay;
}

inline std::string made_up_paragraph(SeededRandom& random) {
  std::string text;
  for (int i = 0; i < 5; ++i) {
    if (i > 0) text += ' ';
    text += made_up_sentence(random, 12);
  }
  return text;
}

/// Ten articles of 20 paragraphs, two questions each, every second one without an answer.
inline nlohmann::json made_up_squad() {
  SeededRandom random(11, "squad");
  nlohmann::json root = {{"data", nlohmann::json::array()}};
  for (int article = 0; article < 20; ++article) {
    nlohmann::json paragraphs = nlohmann::json::array();
    for (int i = 0; i < 20; ++i) {
      const std::string answer = "Answer" + random.digits(6);
      const nlohmann::json answers = {{{"text", answer}}, {{"text", answer}}};
      nlohmann::json qas = {
          {{"question", "What of " + answer.substr(6) + "?"},
           {"answers", answers},
           {"is_impossible", false}},
          {{"question", "Why?"}, {"answers", nlohmann::json::array()}, {"is_impossible", true}}};
      paragraphs.push_back({{"context", made_up_paragraph(random) + " It is " + answer + "."},
                            {"qas", std::move(qas)}});
    }
    root["data"].push_back({{"paragraphs", std::move(paragraphs)}});
  }
  return root;
}

/// Forty questions with ten paragraphs each, the fourth and the eighth of them gold.
inline nlohmann::json made_up_hotpot() {
  SeededRandom random(12, "hotpot");
  nlohmann::json root = nlohmann::json::array();
  for (int question = 0; question < 40; ++question) {
    const std::string answer = "Answer" + random.digits(6);
    nlohmann::json context = nlohmann::json::array();
    nlohmann::json facts = nlohmann::json::array();
    for (int i = 0; i < 10; ++i) {
      const std::string title = "Title" + random.digits(6);
      const bool is_gold = i == 3 || i == 7;
      if (is_gold) facts.push_back({title, 0});
      context.push_back(
          {title, {made_up_paragraph(random), i == 3 ? " It is " + answer + "." : " So."}});
    }
    root.push_back({{"question", "What?"},
                    {"answer", answer},
                    {"context", std::move(context)},
                    {"supporting_facts", std::move(facts)}});
  }
  return root;
}

/// How often `part` occurs in `text`.
inline size_t occurrences(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace kvasir::eval
