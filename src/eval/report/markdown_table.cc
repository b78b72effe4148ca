#include "eval/report/markdown_table.h"

namespace kvasir::eval {

std::string escape_markdown(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '\t') {
      escaped += ' ';
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      if (std::string_view("\\|`*[]").find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

std::string code_text(std::string_view text) {
  // Two backticks and blanks hold a text that has single ones.
  const bool has_ticks = text.find('`') != std::string_view::npos;
  std::string code = has_ticks ? "`` " : "`";
  for (const char c : text) code += c == '\n' || c == '\r' ? ' ' : c;
  return code.append(has_ticks ? " ``" : "`");
}

MarkdownTable::MarkdownTable(const std::vector<std::string>& headings) {
  std::vector<std::string> shown;
  std::string rule = "|";
  for (const std::string& heading : headings) {
    const bool is_number = heading.front() == '#';
    shown.push_back(heading.substr(is_number ? 1 : 0));
    rule.append(is_number ? "---:|" : "---|");
  }
  add_row(shown);
  text_.append(rule).append("\n");
}

void MarkdownTable::add(const std::vector<std::string>& cells) { add_row(cells); }

void MarkdownTable::add_row(const std::vector<std::string>& cells) {
  text_.append("|");
  for (const std::string& cell : cells)
    text_.append(" ").append(escape_markdown(cell)).append(" |");
  text_.append("\n");
}

}  // namespace kvasir::eval
