#include "eval/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvasir::eval {

Progress::Progress(double total) : total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_) fputs("\r\033[K", stderr);
}

void Progress::advance(double units, const std::string& what) {
  done_ = std::min(done_ + units, total_);
  const auto now = Clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10);
  if (shown_ != Clock::time_point::min() && now - shown_ < interval) return;
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double share = done_ / total_;
  const int left = share > 0 ? static_cast<int>(std::lround(elapsed / share * (1 - share))) : 0;
  fprintf(stderr, "%s%3.0f %%  %s%s", terminal_ ? "\r\033[K" : "", share * 100, what.c_str(),
          share > 0 ? "" : "\n");
  if (share > 0) {
    fprintf(stderr, ", %d:%02d left%s", left / 60, left % 60, terminal_ ? "" : "\n");
  }
  fflush(stderr);
}

}  // namespace kvasir::eval
