#include "eval/metrics/code.h"

#include <algorithm>
#include <string>
#include <vector>

#include "eval/metrics/unicode.h"

namespace kvasir::eval {
namespace {

// The first line that is neither empty at the very start nor a comment; empty if there is none.
std::u32string_view first_line_of_code(std::u32string_view text) {
  while (!text.empty() && text.front() == U'\n') text.remove_prefix(1);
  for (const auto line : split_at(text, U'\n')) {
    const bool comment = line.find(U'`') != line.npos || line.find(U'#') != line.npos ||
                         line.find(U"//") != line.npos;
    if (!comment) return line;
  }
  return {};
}

size_t common_subsequence(std::u32string_view a, std::u32string_view b) {
  std::vector<size_t> row(b.size() + 1, 0);
  for (const char32_t c : a) {
    size_t diagonal = 0;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = c == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

double similarity(std::u32string_view a, std::u32string_view b) {
  if (a.empty() && b.empty()) return 1;
  return 2 * static_cast<double>(common_subsequence(a, b)) /
         static_cast<double>(a.size() + b.size());
}

}  // namespace

double score_code_edit(std::string_view prediction, const Question& question) {
  const std::u32string text = decode_utf8(prediction);
  const auto line = first_line_of_code(text);
  double best = 0;
  for (const auto& reference : question.references) {
    best = std::max(best, similarity(line, decode_utf8(reference)));
  }
  return best;
}

}  // namespace kvasir::eval
