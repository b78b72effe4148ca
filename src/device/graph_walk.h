// Reading what llama.cpp's graphs say: which tensors are caches, where positions, token ids and
// output rows come from, what the output head is.
//
// Everything here looks at names, operations and sources; nothing reads or writes data of rows.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "cache/rope.h"
#include "ggml.h"

namespace kvasir::device {

/// A tensor named cache_k_l<layer> or cache_v_l<layer>.
struct CacheName {
  bool is_k;
  int32_t layer;
};
std::optional<CacheName> parse_cache_name(const char* name);

/// The tensor that a view looks at.
const ggml_tensor* root_of(const ggml_tensor* tensor);

/// True for operations that only rename memory.
bool is_view_op(const ggml_tensor* node);

/// The nearest input tensor of that name behind `node`; null if there is none within reach.
ggml_tensor* find_input(ggml_tensor* node, const char* name);

/// The ROPE whose result the rows of a SET_ROWS are, through views only; null if there is none.
const ggml_tensor* find_rope(const ggml_tensor* set_rows);

/// True if any ROPE stands within reach behind a SET_ROWS.
bool has_rope(ggml_tensor* set_rows);

/// What a ROPE does, as turns per position. Fails for multi-section (M-RoPE) rotation.
Result<RopeSpec> rope_spec(const ggml_tensor* rope);

/// The output head: MUL_MAT by output.weight or token_embd.weight of a real graph, or an operation
/// chained on one (scale, soft cap, bias).
bool is_head(const ggml_tensor* node);

/// True for the node whose values are the logits.
bool is_logits(const ggml_tensor* node);

}  // namespace kvasir::device
