// A progress line on stderr with the remaining time.
//
// Knows units of work only; a unit should cost about the same wherever it is spent. On a terminal
// the line is rewritten, elsewhere one is printed every ten seconds. Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace kvasir::eval {

/// Called after each piece of work with the units it was worth and the name of what comes next.
using OnProgress = std::function<void(double units, const std::string& next)>;

class Progress {
 public:
  /// `total` units in all; > 0.
  explicit Progress(double total);
  /// Ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `units` more are done; `what` names what comes next.
  void advance(double units, const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;
  double total_;
  double done_ = 0;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = Clock::time_point::min();
};

}  // namespace kvasir::eval
