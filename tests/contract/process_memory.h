// Resident anonymous memory of this process, in bytes: what it allocated and touched, without the
// mapped weights.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace kvasir::eval {

inline int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stoll(line.substr(8)) * 1024;
  }
  return -1;
}

}  // namespace kvasir::eval
