#include "app/exit_hook.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "device/device.h"

namespace {

constexpr unsigned kPrintSeconds = 2;

std::atomic<pid_t> owner{0};
volatile std::sig_atomic_t leaving_with = 0;

[[noreturn]] void leave(int status) {
  for (;;) syscall(SYS_exit_group, status);
}

}  // namespace

namespace kvasir::app {

void print_stats_at_exit() {
  owner = getpid();
  std::atexit(device::print_stats);
}

}  // namespace kvasir::app

extern "C" void _exit(int status) {
  if (owner == getpid()) {
    leaving_with = status;
    std::signal(SIGALRM, [](int) { leave(leaving_with); });
    alarm(kPrintSeconds);
    kvasir::device::print_stats();
  }
  leave(status);
}
