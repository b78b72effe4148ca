// The ggml backend: graph operations in, cache calls out.
//
// Registers as one device, KVASIR0, that takes over the f16 K/V cache of every llama.cpp context
// created on it. In process: set_options(), then register_device() before the model loads. Stock
// programs load the same code as libggml-kvasir.so and read KVASIR_FLAGS.
#pragma once

#include "base/result.h"
#include "cache/options.h"
#include "ggml-backend.h"

namespace kvasir::device {

inline constexpr const char* kDeviceName = "KVASIR0";

/// Options for the caches of contexts created from now on. Existing contexts keep theirs.
/// Fails with one line when validate(options) does or the trace file cannot be written.
Result<void> set_options(const CacheOptions& options);

/// The registry entry of the backend; made on first use.
ggml_backend_reg_t backend_reg();

/// Registers the backend with ggml once and returns its device.
ggml_backend_dev_t register_device();

/// Writes the statistics of all caches to stderr if --kv-stats was given; at most once.
void print_stats();

}  // namespace kvasir::device
