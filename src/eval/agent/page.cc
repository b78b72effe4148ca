#include "eval/agent/page.h"

#include <iterator>
#include <utility>

namespace kvasir::eval::agent {
namespace {

std::string shown(const Element& element, const std::string& value) {
  const std::string number = bracketed(static_cast<size_t>(element.number)) + " ";
  switch (element.kind) {
    case ElementKind::kLink:
      return number + "link: " + element.label;
    case ElementKind::kButton:
      return number + "button: " + element.label;
    case ElementKind::kField:
      return number + "field " + element.label + ": " + (value.empty() ? "(empty)" : value);
  }
  return {};
}

std::string raw_text(const Block& block) {
  std::string text;
  for (const auto& piece : block.pieces) {
    text += piece.is_element ? shown(piece.element, piece.text) : piece.text;
    text += '\n';
  }
  return text;
}

void append(Page& page, Block block) {
  for (auto& piece : block.pieces) {
    if (piece.is_element) {
      piece.element.number = static_cast<int32_t>(page.elements.size()) + 1;
      page.text += shown(piece.element, piece.text);
      page.elements.push_back(std::move(piece.element));
    } else {
      page.text += piece.text;
    }
    page.text += '\n';
  }
  page.text += '\n';
}

void add_element(Block& block, ElementKind kind, std::string label, std::string target,
                 std::string value) {
  Block::Piece piece;
  piece.text = std::move(value);
  piece.is_element = true;
  piece.element = {0, kind, std::move(label), std::move(target)};
  block.pieces.push_back(std::move(piece));
}

int32_t count_all(const std::vector<Block>& blocks, const CountTokens& count) {
  int32_t total = 0;
  for (const auto& block : blocks) total += count(raw_text(block));
  return total;
}

}  // namespace

std::string bracketed(size_t number) {
  std::string text(1, '[');
  return text.append(std::to_string(number)).append("]");
}

int32_t count_words(std::string_view text) {
  int32_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t';
    if (!space && !inside) ++words;
    inside = !space;
  }
  return static_cast<int32_t>(words * 1.3);
}

const Element* Page::find(int32_t number) const {
  const bool known = number >= 1 && number <= static_cast<int32_t>(elements.size());
  return known ? &elements[static_cast<size_t>(number) - 1] : nullptr;
}

const Element* Page::find(ElementKind kind, std::string_view label) const {
  for (const auto& element : elements) {
    if (element.kind == kind && element.label == label) return &element;
  }
  return nullptr;
}

const Element* Page::link_to(std::string_view wanted) const {
  for (const auto& element : elements) {
    if (element.kind == ElementKind::kLink && element.target == wanted) return &element;
  }
  return nullptr;
}

Block& Block::text(std::string words) {
  pieces.push_back({std::move(words), false, {}});
  return *this;
}

Block& Block::link(std::string label, std::string target) {
  add_element(*this, ElementKind::kLink, std::move(label), std::move(target), {});
  return *this;
}

Block& Block::button(std::string label, std::string target) {
  add_element(*this, ElementKind::kButton, std::move(label), std::move(target), {});
  return *this;
}

Block& Block::field(std::string label, std::string value) {
  add_element(*this, ElementKind::kField, std::move(label), {}, std::move(value));
  return *this;
}

Page lay_out(std::string path, std::string title, std::vector<Block> head, std::vector<Block> body,
             const Filling& filling) {
  int32_t tokens = count_all(head, filling.count) + count_all(body, filling.count);
  Random random(filling.seed);
  std::vector<Block> filler;
  while (tokens < filling.target_tokens) {
    auto more = filling.make(random);
    const int32_t added = count_all(more, filling.count);
    if (added <= 0) break;  // a counter that counts nothing never reaches the target
    tokens += added;
    std::move(more.begin(), more.end(), std::back_inserter(filler));
  }
  Page page{std::move(path), std::move(title), {}, {}};
  for (auto& block : head) append(page, std::move(block));
  size_t used = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    const size_t until = filler.size() * (i + 1) / (body.size() + 1);
    while (used < until) append(page, std::move(filler[used++]));
    append(page, std::move(body[i]));
  }
  while (used < filler.size()) append(page, std::move(filler[used++]));
  return page;
}

}  // namespace kvasir::eval::agent
