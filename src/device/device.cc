#include "device/device.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <string>

#include "device/backend.h"
#include "device/claims.h"
#include "device/device_state.h"
#include "device/kv_buffer.h"
#include "device/statistics.h"
#include "device/trace_sink.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"

namespace kvasir::device {
namespace {

std::mutex options_mutex;
CacheOptions options_in_force;  // guarded by options_mutex

const char* get_name(ggml_backend_dev_t /*device*/) { return kDeviceName; }
const char* get_description(ggml_backend_dev_t /*device*/) { return "Kvasir KV cache"; }

void get_memory(ggml_backend_dev_t /*device*/, size_t* free, size_t* total) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  *total = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page;
  *free = static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page;
}

// GPU: the type of device on which llama.cpp places KV caches.
enum ggml_backend_dev_type get_type(ggml_backend_dev_t /*device*/) {
  return GGML_BACKEND_DEVICE_TYPE_GPU;
}

void get_props(ggml_backend_dev_t device, ggml_backend_dev_props* props) {
  *props = {};
  props->name = get_name(device);
  props->description = get_description(device);
  props->type = get_type(device);
  get_memory(device, &props->memory_free, &props->memory_total);
  props->caps.mmap_support = true;  // weights stay where they are mapped
}

ggml_backend_t init_backend(ggml_backend_dev_t /*device*/, const char* /*params*/) {
  return make_backend();
}

ggml_backend_buffer_type_t get_buffer_type(ggml_backend_dev_t /*device*/) {
  return plain_buffer_type();
}

bool device_supports_op(ggml_backend_dev_t /*device*/, const ggml_tensor* op) {
  return supports_op(op);
}

// Any host memory can be read here, and so can the CPU's repacked weights: the head that multiplies
// them is run by a CPU backend.
bool supports_buft(ggml_backend_dev_t /*device*/, ggml_backend_buffer_type_t type) {
  if (type == plain_buffer_type() || type == kv_buffer_type()) return true;
  if (ggml_backend_buft_is_host(type)) return true;
  ggml_backend_dev_t owner = ggml_backend_buft_get_device(type);
  return owner != nullptr && ggml_backend_dev_type(owner) == GGML_BACKEND_DEVICE_TYPE_CPU;
}

bool offload_op(ggml_backend_dev_t /*device*/, const ggml_tensor* op) { return wants_offload(op); }

const char* reg_name(ggml_backend_reg_t /*reg*/) { return "KVASIR"; }
size_t reg_n_devices(ggml_backend_reg_t /*reg*/) { return 1; }
ggml_backend_dev_t reg_device(ggml_backend_reg_t /*reg*/, size_t /*index*/) {
  return device_handle();
}

void* reg_proc_address(ggml_backend_reg_t /*reg*/, const char* name) {
  if (std::strcmp(name, "ggml_backend_set_n_threads") == 0) {
    return reinterpret_cast<void*>(set_n_threads);
  }
  return nullptr;
}

}  // namespace

ggml_backend_reg_t backend_reg() {
  static ggml_backend_reg reg = {
      GGML_BACKEND_API_VERSION, {reg_name, reg_n_devices, reg_device, reg_proc_address}, nullptr};
  return &reg;
}

ggml_backend_dev_t device_handle() {
  static ggml_backend_device device = {
      {get_name, get_description, get_memory, get_type, get_props, init_backend, get_buffer_type,
       get_buffer_type, nullptr, device_supports_op, supports_buft, offload_op, nullptr, nullptr,
       nullptr},
      backend_reg(),
      nullptr};
  return &device;
}

ggml_backend_dev_t register_device() {
  static const bool registered = [] {
    ggml_backend_register(backend_reg());
    return true;
  }();
  (void)registered;
  return device_handle();
}

Result<void> set_options(const CacheOptions& options) {
  Result<void> valid = validate(options);
  if (!valid) return valid;
  Result<void> traced = trace_sink().open(options.trace_path);
  if (!traced) return traced;
  const std::lock_guard<std::mutex> lock(options_mutex);
  options_in_force = options;
  return {};
}

CacheOptions current_options() {
  const std::lock_guard<std::mutex> lock(options_mutex);
  return options_in_force;
}

bool wants_head(const CacheOptions& options) {
  return options.evicts() || !options.trace_path.empty();
}

const KvKernels& current_kernels() {
  static const KvKernels& kernels = []() -> const KvKernels& {
    const char* name = std::getenv("KVASIR_ISA");
    if (name == nullptr || name[0] == '\0') return best_kernels();
    const KvKernels* named = find_kernels(name);
    if (named != nullptr) return *named;
    std::string known;
    for (const KvKernels* k : supported_kernels()) known += std::string(" ") + k->name;
    GGML_LOG_ERROR("kvasir: KVASIR_ISA=%s is not a kernel table of this CPU:%s; using %s\n", name,
                   known.c_str(), best_kernels().name);
    return best_kernels();
  }();
  return kernels;
}

void print_stats() {
  static std::once_flag once;
  if (!current_options().stats) return;
  std::call_once(once, [] { std::cerr << statistics().report() << std::flush; });
}

}  // namespace kvasir::device
