// Registers KVASIR0 before main, so that a program which knows nothing of Kvasir can name it.
#include "device/device.h"

namespace {

[[maybe_unused]] const ggml_backend_dev_t device = kvasir::device::register_device();

}  // namespace
