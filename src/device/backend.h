// One backend of the device: one llama.cpp context's stream of graphs.
#pragma once

#include "ggml-backend-impl.h"

namespace kvasir::device {

/// A new backend of the device; ggml frees it through its interface.
ggml_backend_t make_backend();

/// Sets the threads of a backend made by make_backend().
void set_n_threads(ggml_backend_t backend, int n_threads);

}  // namespace kvasir::device
