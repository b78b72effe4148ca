// One page as text: numbered elements between paragraphs, filled up to a length.
//
// Knows how a page is laid out; knows nothing of shops and forms.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/agent/random.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval::agent {

/// words * 1.3: about what a tokenizer makes of English.
int32_t count_words(std::string_view text);

enum class ElementKind { kLink, kButton, kField };

/// "[12]"
std::string bracketed(size_t number);

/// What an action can name by its number.
struct Element {
  int32_t number = 0;
  ElementKind kind = ElementKind::kLink;
  std::string label;
  std::string target;  ///< link: the path; button: what it does
};

struct Page {
  std::string path;
  std::string title;
  std::string text;
  std::vector<Element> elements;

  const Element* find(int32_t number) const;
  const Element* find(ElementKind kind, std::string_view label) const;
  const Element* link_to(std::string_view path) const;
};

/// A paragraph: pieces of text and elements, in order.
struct Block {
  struct Piece {
    std::string text;  ///< of an element: the value of a field
    bool is_element = false;
    Element element{};
  };
  std::vector<Piece> pieces;

  Block& text(std::string words);
  Block& link(std::string label, std::string target);
  Block& button(std::string label, std::string target);
  Block& field(std::string label, std::string value);
};

/// What fills a page up, and to how many tokens.
struct Filling {
  std::function<std::vector<Block>(Random& random)> make;  ///< a few more blocks
  CountTokens count;
  int32_t target_tokens = 0;
  uint64_t seed = 0;
};

/// Head first, then the body's blocks spread evenly between blocks of filling, so that what matters
/// may stand anywhere. Elements are numbered from 1 in the order of the text.
Page lay_out(std::string path, std::string title, std::vector<Block> head, std::vector<Block> body,
             const Filling& filling);

}  // namespace kvasir::eval::agent
