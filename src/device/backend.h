// One backend of the device: one llama.cpp context's stream of graphs.
#pragma once

#include "ggml-backend-impl.h"

namespace kvasir::device {

/// A new backend of the device; ggml frees it through its interface.
ggml_backend_t make_backend();

/// Sets the threads of a backend made by make_backend().
void set_n_threads(ggml_backend_t backend, int n_threads);

/// True if the device runs this operation: rows into a cache that it holds, attention over one,
/// RoPE in place on one (context shift), and the output head where something needs its logits.
bool supports_op(const ggml_tensor* op);

/// True if the operation should come here although its weights lie elsewhere: the output head.
bool wants_offload(const ggml_tensor* op);

}  // namespace kvasir::device
