#include "device/claims.h"

#include "device/device_state.h"
#include "device/graph_walk.h"
#include "device/kv_buffer.h"
#include "ggml-impl.h"

namespace kvasir::device {
namespace {

// A view of whole streams of a cache as [head_dim, cells, heads, streams]: what rows look like to
// attention in all but a few architectures.
bool is_stream_view(const ggml_tensor* view) {
  const ggml_tensor* root = root_of(view);
  const auto offset = static_cast<size_t>(view->view_offs);
  return view->nb[1] == root->nb[1] &&
         view->nb[2] == static_cast<size_t>(view->ne[0]) * ggml_type_size(view->type) &&
         view->ne[0] * view->ne[2] == root->ne[0] &&
         (view->ne[3] == 1 || view->nb[3] == root->nb[2]) && offset % root->nb[2] == 0;
}

// Without flash attention V lies transposed and the CPU reads it where it lies. Seen when a context
// reserves its first graph, so nothing is stored yet. A policy that evicts is refused at the first
// rows instead.
bool gives_up(const ggml_tensor* set_rows) {
  KvBuffer* buffer = KvBuffer::of(set_rows);
  if (buffer->options().moves_rows() || buffer->cache_if_made() != nullptr || !buffer->is_kv()) {
    return false;
  }
  KvBuffer::give_up(set_rows);
  GGML_LOG_WARN("kvasir: flash attention is off: the cache stays plain memory on the CPU\n");
  return true;
}

}  // namespace

// V of one element a row: the cache is stored transposed, since flash attention is off.
bool is_transposed_rows(const ggml_tensor* set_rows) {
  return set_rows->ne[0] == 1 && root_of(set_rows)->ne[0] != 1;
}

bool is_cache_rows(const ggml_tensor* op) {
  return op->op == GGML_OP_SET_ROWS && KvBuffer::is_managed(op) &&
         op->src[0]->type == GGML_TYPE_F32 && op->src[1]->type == GGML_TYPE_I64;
}

bool is_cache_attention(const ggml_tensor* op) {
  if (op->op != GGML_OP_FLASH_ATTN_EXT) return false;
  const ggml_tensor* k = op->src[1];
  const ggml_tensor* v = op->src[2];
  if (!KvBuffer::is_managed(k) || !KvBuffer::is_managed(v)) return false;
  const auto k_name = parse_cache_name(root_of(k)->name);
  const auto v_name = parse_cache_name(root_of(v)->name);
  return k_name && v_name && k_name->is_k && !v_name->is_k && k_name->layer == v_name->layer &&
         op->src[0]->type == GGML_TYPE_F32 && k->ne[0] <= kMaxHeadDim && v->ne[0] <= kMaxHeadDim &&
         k->ne[2] == v->ne[2] && is_stream_view(k) && is_stream_view(v) &&
         (op->src[3] == nullptr || op->src[3]->ne[2] == 1);
}

bool is_cache_shift(const ggml_tensor* op) {
  return op->op == GGML_OP_ROPE && KvBuffer::is_managed(op) && root_of(op) == root_of(op->src[0]);
}

bool supports_op(const ggml_tensor* op) {
  if (is_view_op(op)) return true;
  if (is_cache_rows(op) && is_transposed_rows(op) && gives_up(op)) return false;
  if (is_cache_rows(op) || is_cache_attention(op) || is_cache_shift(op)) return true;
  for (const ggml_tensor* source : op->src) {
    if (source != nullptr && KvBuffer::cache_tensor(source) != nullptr) {
      KvBuffer::of(source)->note_foreign(op);
    }
  }
  return wants_offload(op);
}

bool wants_offload(const ggml_tensor* op) { return is_head(op) && wants_head(current_options()); }

}  // namespace kvasir::device
