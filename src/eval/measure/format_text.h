// printf into a string, for lines of tables.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace kvasir::eval {

/// At most 511 characters.
[[gnu::format(printf, 1, 2)]] inline std::string format_text(const char* format, ...) {
  char buffer[512];
  va_list args;
  va_start(args, format);
  vsnprintf(buffer, sizeof(buffer), format, args);
  va_end(args);
  return buffer;
}

}  // namespace kvasir::eval
