#include "device/backend.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/claims.h"
#include "device/device_state.h"
#include "device/graph_walk.h"
#include "device/kv_buffer.h"
#include "device/openmp_for.h"
#include "device/step_tracker.h"
#include "ggml-impl.h"

namespace kvasir::device {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

template <typename T>
T param(const ggml_tensor* op, int index) {
  T value;
  std::memcpy(&value, op->op_params + index, sizeof(T));
  return value;
}

class Backend {
 public:
  Backend() : tracker_(current_kernels(), parallel_) {
    cpu_ = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    assert(cpu_ != nullptr);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu_));
    set_cpu_threads_ = reinterpret_cast<ggml_backend_set_n_threads_t>(
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
  }
  ~Backend() {
    tracker_.finish();
    ggml_backend_free(cpu_);
  }
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  void set_n_threads(int n) {
    parallel_.set_n_workers(n);
    if (set_cpu_threads_ != nullptr) set_cpu_threads_(cpu_, n);
  }

  void optimize(ggml_cgraph* graph, ggml_backend_graph_optimize_params* params);
  Result<void> compute(ggml_cgraph* graph);

 private:
  Result<void> store(ggml_tensor* op);
  Result<void> attend(ggml_tensor* op);
  Result<void> shift(ggml_cgraph* graph, int index, ggml_tensor* op);
  Result<void> run_on_cpu(ggml_cgraph* graph, int index);
  Result<void> check_context(KvBuffer& buffer);
  void learn_attention(const ggml_tensor* op);
  Result<void> learn_rotation(Cache& cache, int32_t layer, ggml_tensor* set_rows);

  OpenMpFor parallel_;
  StepTracker tracker_;
  ggml_backend_t cpu_ = nullptr;
  ggml_backend_set_n_threads_t set_cpu_threads_ = nullptr;
  bool head_claimed_ = false;
  bool checked_ = false;
  std::string failure_;                     // of check_context: said again for every graph
  std::vector<int32_t> cells_, positions_;  // scratch of store
};

// Called for each split of a new graph, before it is allocated: the place to learn shapes, and to
// keep inputs alive that are read later than the graph shows.
void Backend::optimize(ggml_cgraph* graph, ggml_backend_graph_optimize_params* params) {
  const auto keep = [&](ggml_tensor* input, ggml_tensor* until) {
    if (input != nullptr && params != nullptr && params->add_alloc_dep != nullptr) {
      params->add_alloc_dep(params->user_data, input, until);
    }
  };
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    ggml_tensor* node = ggml_graph_node(graph, i);
    if (is_cache_attention(node)) {
      learn_attention(node);
    } else if (is_cache_rows(node)) {
      KvBuffer* buffer = KvBuffer::of(node);
      const CacheTensor* tensor = KvBuffer::cache_tensor(node);
      if (tensor == nullptr) continue;
      tracker_.add_buffer(*buffer);
      tracker_.note_ubatch(node->src[1]->ne[0]);
      if (tensor->is_k && tensor->layer == buffer->first_layer()) {
        const StepTracker::Inputs& inputs = tracker_.learn_rows(node);
        keep(inputs.tokens, node);
        keep(inputs.positions, node);
      }
    } else if (is_head(node)) {
      head_claimed_ = head_claimed_ || is_logits(node);
      keep(tracker_.learn_head(node).output_ids, node);
    }
  }
}

void Backend::learn_attention(const ggml_tensor* op) {
  const CacheTensor* tensor = KvBuffer::cache_tensor(op->src[1]);
  if (tensor == nullptr) return;  // a dummy buffer
  KvBuffer* buffer = KvBuffer::of(op->src[1]);
  tracker_.add_buffer(*buffer);
  const LayerGeometry geometry{static_cast<int32_t>(op->src[1]->ne[2]),
                               static_cast<int32_t>(op->src[1]->ne[0]),
                               static_cast<int32_t>(op->src[2]->ne[0])};
  Result<void> set =
      buffer->set_geometry(tensor->layer, geometry, static_cast<int32_t>(op->src[0]->ne[2]));
  if (!set) failure_ = set.error();
}

// Once per context, at its first rows: what cannot be done right is refused by name.
Result<void> Backend::check_context(KvBuffer& buffer) {
  if (!checked_) {
    checked_ = true;
    int32_t max_cells = 0;
    for (const KvBuffer* b : tracker_.buffers()) max_cells = std::max(max_cells, b->n_cells());
    int32_t n_longest = 0;
    for (KvBuffer* b : tracker_.buffers()) {
      b->set_dense(b->n_cells() < max_cells);
      n_longest += b->n_cells() == max_cells ? 1 : 0;
    }
    const CacheOptions& options = buffer.options();
    if (options.moves_rows() && n_longest > 1) {
      failure_ = options.mover() +
                 " cannot tell sliding-window layers from others: "
                 "their caches have " +
                 std::to_string(max_cells) +
                 " cells too; leave out --swa-full and use a longer context";
    }
    for (const KvBuffer* b : tracker_.buffers()) {
      if (options.moves_rows() && !b->foreign().empty()) {
        failure_ = options.mover() + " is not available for this model: " + b->foreign() +
                   " reads the cache in a form that the device does not compute";
      }
    }
    const Result<Policy> policy = policy_of(options);
    if (policy && policy.value().needs().confidence && !head_claimed_) {
      failure_ = "policy " + options.policy +
                 " needs the model's logits, but its output head was "
                 "not found; use --kv-policy window or none";
    }
  }
  if (!failure_.empty()) return Error{failure_};
  return {};
}

// Once per layer, where something needs it: how its keys were rotated.
Result<void> Backend::learn_rotation(Cache& cache, int32_t layer, ggml_tensor* set_rows) {
  const std::string reader = cache.rope_reader();
  if (reader.empty() || cache.knows_rope(layer)) return {};
  const ggml_tensor* rope = find_rope(set_rows);
  if (rope == nullptr && has_rope(set_rows)) {
    return Error{reader +
                 " is not available for this model: its keys are changed after the rotation; use "
                 "the default"};
  }
  if (rope == nullptr) {
    cache.set_rope(layer, RopeSpec{});
    return {};
  }
  Result<RopeSpec> spec = rope_spec(rope);
  if (!spec) return Error{spec.error()};
  cache.set_rope(layer, spec.value());
  return {};
}

Result<void> Backend::store(ggml_tensor* op) {
  KvBuffer& buffer = *KvBuffer::of(op);
  const CacheTensor& tensor = *KvBuffer::cache_tensor(op);
  if (is_transposed_rows(op)) {
    return Error{buffer.options().mover() +
                 " needs flash attention, which is off: pass -fa auto, or leave it out for a model "
                 "that cannot use it"};
  }
  Result<void> fit = check_context(buffer);
  if (!fit) return fit;
  Result<Cache*> made = buffer.cache();
  if (!made) return Error{made.error()};
  Cache& cache = *made.value();
  if (tensor.is_k) {
    Result<void> room = tracker_.note_rows(buffer, tensor.layer, op);
    if (!room) return room;
    Result<void> learnt = learn_rotation(cache, tensor.layer, op);
    if (!learnt) return learnt;
  }
  const ggml_tensor* rows = op->src[0];
  const auto* indices = static_cast<const int64_t*>(op->src[1]->data);
  const int64_t n = rows->ne[1];
  const auto positions = tracker_.positions();
  for (int64_t first = 0; first < n;) {
    const int64_t stream = indices[first] / tensor.n_cells;
    cells_.clear();
    int64_t end = first;
    for (; end < n && indices[end] / tensor.n_cells == stream; ++end) {
      cells_.push_back(static_cast<int32_t>(indices[end] % tensor.n_cells));
    }
    const TokenSpan tokens{cells_, positions.subspan(z(first), z(end - first))};
    const RowsView view{reinterpret_cast<const float*>(static_cast<const std::byte*>(rows->data) +
                                                       first * static_cast<int64_t>(rows->nb[1])),
                        static_cast<ptrdiff_t>(rows->nb[1] / sizeof(float)),
                        static_cast<int32_t>(end - first)};
    Result<void> stored =
        tensor.is_k ? cache.append_k(tensor.layer, static_cast<int32_t>(stream), tokens, view)
                    : cache.append_v(tensor.layer, static_cast<int32_t>(stream), tokens, view);
    if (!stored) return stored;
    first = end;
  }
  return {};
}

Result<void> Backend::attend(ggml_tensor* op) {
  const ggml_tensor* q = op->src[0];
  const ggml_tensor* k = op->src[1];
  const ggml_tensor* mask = op->src[3];
  const ggml_tensor* sinks = op->src[4];
  KvBuffer& buffer = *KvBuffer::of(k);
  const CacheTensor& tensor = *KvBuffer::cache_tensor(k);
  Result<void> fit = check_context(buffer);
  if (!fit) return fit;
  Result<Cache*> cache = buffer.cache();
  if (!cache) return Error{cache.error()};

  AttendArgs args;
  args.layer = tensor.layer;
  const auto offset =
      static_cast<const std::byte*>(k->data) - static_cast<const std::byte*>(root_of(k)->data);
  args.first_stream = static_cast<int32_t>(offset / (ptrdiff_t{tensor.n_cells} * tensor.width *
                                                     static_cast<ptrdiff_t>(sizeof(uint16_t))));
  args.n_streams = static_cast<int32_t>(q->ne[3]);
  args.n_queries = static_cast<int32_t>(q->ne[1]);
  args.n_heads = static_cast<int32_t>(q->ne[2]);
  const auto elements = [](size_t bytes) { return static_cast<ptrdiff_t>(bytes / sizeof(float)); };
  args.q = static_cast<const float*>(q->data);
  args.q_stream = elements(q->nb[3]);
  args.q_query = elements(q->nb[1]);
  args.q_head = elements(q->nb[2]);
  args.n_cells = static_cast<int32_t>(k->ne[1]);
  if (mask != nullptr) {
    args.mask = static_cast<const uint16_t*>(mask->data);
    args.mask_query = static_cast<ptrdiff_t>(mask->nb[1] / sizeof(uint16_t));
    args.mask_stream =
        mask->ne[3] == 1 ? 0 : static_cast<ptrdiff_t>(mask->nb[3] / sizeof(uint16_t));
  }
  args.soft_cap = param<float>(op, 2);
  args.scale = param<float>(op, 0);
  args.max_bias = param<float>(op, 1);
  args.sinks = sinks == nullptr ? nullptr : static_cast<const float*>(sinks->data);
  args.out = static_cast<float*>(op->data);
  args.out_head = elements(op->nb[1]);
  args.out_query = elements(op->nb[2]);
  args.out_stream = elements(op->nb[3]);
  args.positions = tracker_.positions();
  args.epoch = tracker_.epoch();
  return cache.value()->attend(args, parallel_);
}

// Context shift: the rows are laid out in plain memory, rotated there by the CPU backend, and taken
// back.
Result<void> Backend::shift(ggml_cgraph* graph, int index, ggml_tensor* op) {
  KvBuffer& buffer = *KvBuffer::of(op);
  const CacheTensor& tensor = *KvBuffer::cache_tensor(op);
  Result<Cache*> made = buffer.cache();
  if (!made) return Error{made.error()};
  Cache& cache = *made.value();
  if (cache.moves_rows()) {
    return Error{"context shift is not available with " + buffer.options().mover() +
                 ": leave out --context-shift and --cache-reuse"};
  }
  const ggml_tensor* root = root_of(op);
  auto* plain = static_cast<uint16_t*>(root->data);
  const auto for_each_row = [&](auto f) {
    for (int32_t s = 0; s < tensor.n_streams; ++s) {
      LayerCache* rows = cache.find(tensor.layer, s);
      for (int32_t cell = 0; rows != nullptr && cell < rows->n_slots(); ++cell) {
        if (!rows->rows().has_page(cell / kPageSlots)) continue;
        f(rows->rows(), cell, plain + (ptrdiff_t{s} * tensor.n_cells + cell) * tensor.width);
      }
    }
  };
  for_each_row([](F16Tier& rows, int32_t slot, uint16_t* row) { rows.read_k(slot, row); });
  Result<void> rotated = run_on_cpu(graph, index);
  if (!rotated) return rotated;
  for_each_row([](F16Tier& rows, int32_t slot, uint16_t* row) { rows.write_k(slot, row); });
  buffer.decommit(root->data, ggml_nbytes(root));
  return {};
}

Result<void> Backend::run_on_cpu(ggml_cgraph* graph, int index) {
  ggml_cgraph one = ggml_graph_view(graph, index, index + 1);
  if (ggml_backend_graph_compute(cpu_, &one) == GGML_STATUS_SUCCESS) return {};
  return Error{std::string("the CPU backend failed to run ") +
               ggml_op_name(ggml_graph_node(graph, index)->op)};
}

Result<void> Backend::compute(ggml_cgraph* graph) {
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    ggml_tensor* node = ggml_graph_node(graph, i);
    if (is_view_op(node)) continue;
    Result<void> done;
    if (is_cache_rows(node)) {
      done = store(node);
    } else if (is_cache_attention(node)) {
      done = attend(node);
    } else if (is_cache_shift(node)) {
      done = shift(graph, i, node);
    } else {
      done = run_on_cpu(graph, i);
      if (done && is_logits(node)) tracker_.end_with_logits(node);
    }
    if (!done) return done;
  }
  return {};
}

Backend& self(ggml_backend_t backend) { return *static_cast<Backend*>(backend->context); }

const char* get_name(ggml_backend_t /*backend*/) { return "KVASIR"; }

void free_backend(ggml_backend_t backend) {
  delete static_cast<Backend*>(backend->context);
  delete backend;
}

ggml_status graph_compute(ggml_backend_t backend, ggml_cgraph* graph) {
  Result<void> done = self(backend).compute(graph);
  if (done) return GGML_STATUS_SUCCESS;
  GGML_LOG_ERROR("kvasir: %s\n", done.error().c_str());
  return GGML_STATUS_FAILED;
}

void graph_optimize(ggml_backend_t backend, ggml_cgraph* graph,
                    ggml_backend_graph_optimize_params* params) {
  self(backend).optimize(graph, params);
}

ggml_backend_i make_interface() {
  ggml_backend_i interface {};
  interface.get_name = get_name;
  interface.free = free_backend;
  interface.graph_compute = graph_compute;
  interface.graph_optimize = graph_optimize;
  return interface;
}

ggml_guid_t guid() {
  static ggml_guid id = {0x4b, 0x76, 0x61, 0x73, 0x69, 0x72, 0x2d, 0x6b,
                         0x76, 0x2d, 0x64, 0x65, 0x76, 0x69, 0x63, 0x65};
  return &id;
}

}  // namespace

ggml_backend_t make_backend() {
  return new ggml_backend{guid(), make_interface(), device_handle(), new Backend()};
}

void set_n_threads(ggml_backend_t backend, int n_threads) {
  self(backend).set_n_threads(n_threads);
}

}  // namespace kvasir::device
