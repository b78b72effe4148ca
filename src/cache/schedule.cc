#include "cache/schedule.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

namespace kvasir {
namespace {

using Text = std::string_view;

constexpr int64_t kNull = -1;

// What was found in a line; kNull for null, nothing where the key is missing.
struct Fields {
  std::optional<int64_t> step, stream, budget;
};

/// One flat scan over the top level of a trace line: its numbers by key, nested objects skipped.
class Line {
 public:
  explicit Line(Text text) : rest_(text) {}

  /// False if the text is no object of the form that the writer has.
  bool read() {
    if (!take('{')) return false;
    do {
      Text key;
      if (!take_key(key) || !take_value(key)) return false;
    } while (take(','));
    return take('}') && rest_.empty();
  }

  const Fields& fields() const { return fields_; }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }

  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    skip_blanks();
    return true;
  }

  bool take_key(Text& key) {
    if (!take('"')) return false;
    const size_t end = rest_.find('"');
    if (end == Text::npos) return false;
    key = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return take(':');
  }

  // A number, null, or an object of numbers and nulls.
  bool take_value(Text key) {
    if (take('{')) {
      do {
        Text inner;
        if (!take_key(inner) || !take_number("")) return false;
      } while (take(','));
      return take('}');
    }
    return take_number(key);
  }

  bool take_number(Text key) {
    const size_t end = std::min(rest_.find_first_of(",} \t"), rest_.size());
    const Text word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    std::optional<int64_t>* wanted = key == "step"     ? &fields_.step
                                     : key == "stream" ? &fields_.stream
                                     : key == "budget" ? &fields_.budget
                                                       : nullptr;
    if (word == "null") {
      if (wanted != nullptr) *wanted = kNull;
      return true;
    }
    return wanted != nullptr ? whole(word, *wanted) : number(word);
  }

  static bool whole(Text word, std::optional<int64_t>& value) {
    int64_t n = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (code != std::errc() || end != word.data() + word.size() || n < 0) return false;
    value = n;
    return true;
  }

  static bool number(Text word) {
    double n = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), n);
    return code == std::errc() && end == word.data() + word.size();
  }

  Text rest_;
  Fields fields_;
};

Error refused(const std::string& name, int64_t line, const std::string& what) {
  return Error{"--kv-schedule " + name + ", line " + std::to_string(line) + ": " + what};
}

}  // namespace

Result<std::vector<int32_t>> parse_schedule(Text text, const std::string& name) {
  std::vector<int32_t> budgets;
  std::optional<int64_t> stream, last_step;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const bool read = line.read();
    const Fields& found = line.fields();
    if (!read || !found.step || !found.stream || !found.budget || *found.step == kNull ||
        *found.stream == kNull) {
      return refused(name, number,
                     "expected a line that --kv-trace wrote, with step, stream, budget");
    }
    if (stream && *stream != *found.stream) {
      return refused(name, number,
                     "found stream " + std::to_string(*found.stream) + " after stream " +
                         std::to_string(*stream) + "; a schedule is of one stream");
    }
    if (last_step && *found.step <= *last_step) {
      return refused(name, number,
                     "found step " + std::to_string(*found.step) + " after step " +
                         std::to_string(*last_step) + "; a schedule is of one run");
    }
    stream = found.stream;
    last_step = found.step;
    if (*found.budget == kNull) continue;
    if (*found.budget > std::numeric_limits<int32_t>::max()) {
      return refused(
          name, number,
          "found budget " + std::to_string(*found.budget) + ", expected at most 2147483647 tokens");
    }
    budgets.push_back(static_cast<int32_t>(*found.budget));
  }
  return budgets;
}

Result<std::vector<int32_t>> read_schedule(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{"--kv-schedule " + path + ": cannot be read: " + std::strerror(errno)};
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return Error{"--kv-schedule " + path + ": cannot be read"};
  return parse_schedule(text, path);
}

}  // namespace kvasir
