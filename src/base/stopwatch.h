// Adds the time between its making and its end to a count of nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvasir {

class Stopwatch {
 public:
  explicit Stopwatch(int64_t& nanoseconds) : nanoseconds_(nanoseconds) {}
  ~Stopwatch() {
    nanoseconds_ +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  int64_t& nanoseconds_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace kvasir
