// Tables and texts as Markdown writes them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvasir::eval {

/// A text that stands for itself: nothing in it is markup, and it ends no cell and no line.
std::string escape_markdown(std::string_view text);

/// A command or a file's name, set as code.
std::string code_text(std::string_view text);

/// A table row by row; a column whose heading begins with "#" is set to the right.
class MarkdownTable {
 public:
  explicit MarkdownTable(const std::vector<std::string>& headings);
  /// As many cells as there are headings; each is escaped.
  void add(const std::vector<std::string>& cells);
  const std::string& text() const { return text_; }

 private:
  void add_row(const std::vector<std::string>& cells);
  std::string text_;
};

}  // namespace kvasir::eval
