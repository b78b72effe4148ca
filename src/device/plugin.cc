// libggml-kvasir.so for stock llama.cpp programs: GGML_BACKEND_PATH names the file, KVASIR_FLAGS
// holds the --kv-* flags.
//
// ggml calls ggml_backend_init() when it loads the file. Bad flags refuse the load in one line; the
// program then says that the device KVASIR0 is unknown.
#include <cstdlib>
#include <string>
#include <vector>

#include "device/device.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"

namespace {

kvasir::Result<void> read_flags() {
  const char* text = std::getenv("KVASIR_FLAGS");
  kvasir::CacheOptions options;
  if (text != nullptr) {
    kvasir::Result<std::vector<std::string>> words = kvasir::split_flags(text);
    if (!words) return kvasir::Error{words.error()};
    kvasir::Result<void> taken = kvasir::take_flags(words.value(), options);
    if (!taken) return taken;
    if (!words.value().empty()) {
      return kvasir::Error{"KVASIR_FLAGS: " + words.value().front() + " is not a --kv-* flag"};
    }
  }
  return kvasir::device::set_options(options);
}

struct StatsAtExit {
  ~StatsAtExit() { kvasir::device::print_stats(); }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
  kvasir::Result<void> flags = read_flags();
  if (!flags) {
    GGML_LOG_ERROR("kvasir: %s\n", flags.error().c_str());
    return nullptr;
  }
  static const StatsAtExit stats_at_exit;
  return kvasir::device::backend_reg();
}
