// The lines of a file, one after the other, none longer than a limit.
//
// Knows files and bytes, not what the lines mean. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/result.h"

namespace kvasir::eval {

class LineReader {
 public:
  static constexpr size_t kLongestLine = size_t{64} << 20U;  // bytes

  /// Fails with one line if there is no file at `path` that can be read.
  static Result<LineReader> open(const std::string& path, size_t longest_line = kLongestLine);

  /// Reads the next line, without its line break, into `line`; false at the end of the file. Fails
  /// with one line if the line is too long or the file cannot be read.
  Result<bool> next(std::string& line);

  const std::string& path() const { return path_; }
  /// The number of the line read last, from 1.
  int64_t line_number() const { return line_number_; }

 private:
  LineReader(std::string path, std::ifstream file, size_t longest_line);
  /// More bytes into the buffer; false at the end of the file.
  Result<bool> fill();

  std::string path_;
  std::ifstream file_;
  size_t longest_line_;
  std::string buffer_;
  size_t used_ = 0;  // bytes of the buffer that were given out
  int64_t line_number_ = 0;
};

}  // namespace kvasir::eval
