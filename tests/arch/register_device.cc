// Registers KVASIR0 before main, so that a program which knows nothing of Kvasir can name it, and
// writes out llama.cpp's log at exit: its worker drops the last lines of the table otherwise.
#include <cstdlib>

#include "device/device.h"
#include "log.h"

namespace {

bool set_up() {
  kvasir::device::register_device();
  common_log_main();  // made first, so that it is still there when the handler below runs
  return std::atexit([] { common_log_flush(common_log_main()); }) == 0;
}

[[maybe_unused]] const bool kReady = set_up();

}  // namespace
