// Which operations the device runs: what a graph must look like to be claimed.
//
// Asked when a graph is built, and again for each node when it is computed. Looks at shapes, names
// and buffers, never at data.
#pragma once

#include "ggml.h"

namespace kvasir::device {

/// SET_ROWS of f32 rows into a cache that the device holds.
bool is_cache_rows(const ggml_tensor* op);
/// Such rows of one element each: V is stored transposed, since flash attention is off.
bool is_transposed_rows(const ggml_tensor* set_rows);
/// FLASH_ATTN_EXT over K and V of one layer of such a cache, as views of whole streams.
bool is_cache_attention(const ggml_tensor* op);
/// ROPE in place on such a cache: a context shift.
bool is_cache_shift(const ggml_tensor* op);

/// True if the device runs this operation: rows into a cache that it holds, attention over one,
/// RoPE in place on one (context shift), and the output head where something needs its logits.
/// Other readers of a cache are noted in its buffer.
bool supports_op(const ggml_tensor* op);

/// True if the operation should come here although its weights lie elsewhere: the output head.
bool wants_offload(const ggml_tensor* op);

}  // namespace kvasir::device
