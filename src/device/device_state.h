// What the one device of the process holds: options for new caches, the kernel table, its handle.
#pragma once

#include "cache/options.h"
#include "ggml-backend.h"
#include "kernels/kernels.h"

namespace kvasir::device {

/// The device; made on first use.
ggml_backend_dev_t device_handle();

/// Options for caches made from now on.
CacheOptions current_options();

/// The table of functions: KVASIR_ISA if it names one of this CPU, else the fastest.
const KvKernels& current_kernels();

/// True if what is asked for needs to see the output head: an evicting policy or a trace.
bool wants_head(const CacheOptions& options);

}  // namespace kvasir::device
