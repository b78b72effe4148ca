#include "eval/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace kvasir::eval {
namespace {

// The value behind `key` ("VmRSS:") in a file of lines "key   number kB"; 0 if it is not there.
int64_t kilobytes(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::stoll(line.substr(key.size()));
  }
  return 0;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "unknown";
}

int64_t largest_cache_bytes() {
  const int64_t l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const int64_t l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max({l2, l3, int64_t{0}});
}

int64_t available_bytes() { return kilobytes("/proc/meminfo", "MemAvailable:") * 1024; }

int64_t resident_bytes() { return kilobytes("/proc/self/status", "VmRSS:") * 1024; }

PeakResident::PeakResident() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5;  // sets VmHWM to VmRSS: proc(5)
  file.close();
  is_set_back_ = static_cast<bool>(file);
}

int64_t PeakResident::bytes() const {
  const int64_t now = resident_bytes();
  return is_set_back_ ? std::max(now, kilobytes("/proc/self/status", "VmHWM:") * 1024) : now;
}

}  // namespace kvasir::eval
