#include "eval/data/line_reader.h"

#include <string_view>
#include <utility>

namespace kvasir::eval {
namespace {

constexpr size_t kBuffer = size_t{64} << 10U;

}  // namespace

LineReader::LineReader(std::string path, std::ifstream file, size_t longest_line)
    : path_(std::move(path)), file_(std::move(file)), longest_line_(longest_line) {}

Result<LineReader> LineReader::open(const std::string& path, size_t longest_line) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{"cannot open " + path + ": expected a file that can be read"};
  return LineReader(path, std::move(file), longest_line);
}

Result<bool> LineReader::fill() {
  buffer_.resize(kBuffer);
  used_ = 0;
  file_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.resize(static_cast<size_t>(file_.gcount()));
  if (file_.bad()) return Error{"cannot read " + path_ + ": expected a file of JSON lines"};
  return !buffer_.empty();
}

Result<bool> LineReader::next(std::string& line) {
  line.clear();
  ++line_number_;
  for (;;) {
    if (used_ == buffer_.size()) {
      const auto more = fill();
      if (!more) return Error{more.error()};
      if (!more.value()) return !line.empty();
    }
    const std::string_view rest = std::string_view(buffer_).substr(used_);
    const size_t end = rest.find('\n');
    const std::string_view piece = rest.substr(0, end);
    if (line.size() + piece.size() > longest_line_) {
      return Error{path_ + ":" + std::to_string(line_number_) + ": a line of more than " +
                   std::to_string(longest_line_) + " bytes, the most that is allowed"};
    }
    line += piece;
    used_ += piece.size() + (end == std::string_view::npos ? 0 : 1);
    if (end != std::string_view::npos) return true;
  }
}

}  // namespace kvasir::eval
