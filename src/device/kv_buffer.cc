#include "device/kv_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <mutex>
#include <numeric>

#include "device/device_state.h"
#include "device/graph_walk.h"
#include "device/statistics.h"
#include "ggml-impl.h"

namespace kvasir::device {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMemoryPage = 4096;
constexpr uint16_t kAbsent = 0x7E00;  // NaN: a row that the cache does not hold
constexpr int64_t kCacheTensorDims = 3;

std::atomic<int64_t> next_buffer_id{0};

// The buffers that exist, by id; outlives those that are freed at exit.
struct Living {
  std::mutex mutex;
  std::map<int64_t, KvBuffer*> buffers;
};

Living& living() {
  static auto* instance = new Living();
  return *instance;
}

size_t z(int64_t n) { return static_cast<size_t>(n); }

KvBuffer& self(ggml_backend_buffer_t buffer) { return *static_cast<KvBuffer*>(buffer->context); }

void free_buffer(ggml_backend_buffer_t buffer) { delete &self(buffer); }

void* get_base(ggml_backend_buffer_t buffer) { return self(buffer).base(); }

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
  if (self(buffer).place(tensor)) buffer->buft = kv_buffer_type();
  return GGML_STATUS_SUCCESS;
}

void set_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data, size_t offset,
                size_t size) {
  if (KvBuffer::cache_tensor(tensor) != nullptr) {
    self(buffer).write(tensor, data, offset, size);
  } else {
    std::memcpy(static_cast<std::byte*>(tensor->data) + offset, data, size);
  }
}

void get_tensor(ggml_backend_buffer_t buffer, const ggml_tensor* tensor, void* data, size_t offset,
                size_t size) {
  if (KvBuffer::cache_tensor(tensor) != nullptr) {
    self(buffer).read(tensor, data, offset, size);
  } else {
    std::memcpy(data, static_cast<const std::byte*>(tensor->data) + offset, size);
  }
}

void memset_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, uint8_t value, size_t offset,
                   size_t size) {
  if (KvBuffer::cache_tensor(tensor) != nullptr) {
    const std::vector<uint8_t> bytes(size, value);
    self(buffer).write(tensor, bytes.data(), offset, size);
  } else {
    std::memset(static_cast<std::byte*>(tensor->data) + offset, value, size);
  }
}

// dst lies in a buffer of ours; src may lie anywhere in host memory or in a buffer of ours.
bool cpy_tensor(ggml_backend_buffer_t buffer, const ggml_tensor* src, ggml_tensor* dst) {
  KvBuffer* source = KvBuffer::of(src);
  if (source == nullptr && !ggml_backend_buffer_is_host(root_of(src)->buffer)) return false;
  if (source == &self(buffer) && source->copy_stream(src, dst)) return true;
  const size_t size = ggml_nbytes(src);
  if (KvBuffer::cache_tensor(src) == nullptr) {
    set_tensor(buffer, dst, src->data, 0, size);
    return true;
  }
  std::vector<std::byte> bytes(size);
  source->read(src, bytes.data(), 0, size);
  set_tensor(buffer, dst, bytes.data(), 0, size);
  return true;
}

void clear(ggml_backend_buffer_t buffer, uint8_t value) { self(buffer).clear(value); }

constexpr ggml_backend_buffer_i kBufferInterface = {
    free_buffer, get_base, init_tensor, memset_tensor, set_tensor, get_tensor,
    nullptr,     nullptr,  cpy_tensor,  clear,         nullptr};

const char* plain_name(ggml_backend_buffer_type_t /*type*/) { return "KVASIR"; }
const char* kv_name(ggml_backend_buffer_type_t /*type*/) { return "KVASIR_KV"; }
size_t alignment(ggml_backend_buffer_type_t /*type*/) { return kAlignment; }
bool yes(ggml_backend_buffer_type_t /*type*/) { return true; }
bool no(ggml_backend_buffer_type_t /*type*/) { return false; }

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
  std::unique_ptr<KvBuffer> buffer = KvBuffer::reserve(std::max(size, kMemoryPage));
  if (buffer == nullptr) return nullptr;
  return ggml_backend_buffer_init(type, kBufferInterface, buffer.release(), size);
}

}  // namespace

ggml_backend_buffer_type_t plain_buffer_type() {
  static ggml_backend_buffer_type type = {
      {plain_name, allocate, alignment, nullptr, nullptr, yes}, device_handle(), nullptr};
  return &type;
}

ggml_backend_buffer_type_t kv_buffer_type() {
  static ggml_backend_buffer_type type = {
      {kv_name, allocate, alignment, nullptr, nullptr, no}, device_handle(), nullptr};
  return &type;
}

std::unique_ptr<KvBuffer> KvBuffer::reserve(size_t size) {
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  return std::unique_ptr<KvBuffer>(new KvBuffer(static_cast<std::byte*>(base), size));
}

KvBuffer::KvBuffer(std::byte* base, size_t size)
    : base_(base), size_(size), id_(next_buffer_id++), options_(current_options()) {
  const std::lock_guard<std::mutex> lock(living().mutex);
  living().buffers[id_] = this;
}

int64_t KvBuffer::next_id() { return next_buffer_id; }

std::vector<KvBuffer*> KvBuffer::made_between(int64_t first, int64_t last) {
  const std::lock_guard<std::mutex> lock(living().mutex);
  std::vector<KvBuffer*> found;
  const auto end = living().buffers.lower_bound(last);
  for (auto it = living().buffers.lower_bound(first); it != end; ++it) found.push_back(it->second);
  return found;
}

KvBuffer::~KvBuffer() {
  {
    const std::lock_guard<std::mutex> lock(living().mutex);
    living().buffers.erase(id_);
  }
  if (cache_ != nullptr) statistics().forget(id_);
  munmap(base_, size_);
}

KvBuffer* KvBuffer::of(const ggml_tensor* tensor) {
  const ggml_backend_buffer* buffer = root_of(tensor)->buffer;
  if (buffer == nullptr || buffer->iface.free_buffer != free_buffer) return nullptr;
  return static_cast<KvBuffer*>(buffer->context);
}

const CacheTensor* KvBuffer::cache_tensor(const ggml_tensor* tensor) {
  const KvBuffer* buffer = of(tensor);
  if (buffer == nullptr || !buffer->is_kv_) return nullptr;
  const auto it = buffer->tensors_.find(root_of(tensor)->data);
  return it == buffer->tensors_.end() ? nullptr : &it->second;
}

bool KvBuffer::is_managed(const ggml_tensor* tensor) {
  const KvBuffer* buffer = of(tensor);
  if (buffer == nullptr) return false;
  if (buffer->is_kv_) return cache_tensor(tensor) != nullptr;
  // A dummy buffer (memory estimation) is never told of its tensors.
  const ggml_tensor* root = root_of(tensor);
  return buffer->tensors_.empty() && root->data == nullptr && root->type == GGML_TYPE_F16 &&
         parse_cache_name(root->name).has_value();
}

void KvBuffer::give_up(const ggml_tensor* tensor) {
  KvBuffer* buffer = of(tensor);
  assert(buffer != nullptr && buffer->cache_ == nullptr);
  buffer->is_kv_ = false;
  buffer->given_up_ = true;
  root_of(tensor)->buffer->buft = plain_buffer_type();
}

bool KvBuffer::place(const ggml_tensor* tensor) {
  if (given_up_ || tensor->view_src != nullptr || tensor->type != GGML_TYPE_F16) return is_kv_;
  const std::optional<CacheName> name = parse_cache_name(tensor->name);
  if (!name) return is_kv_;
  static_assert(GGML_MAX_DIMS > kCacheTensorDims);
  CacheTensor entry{name->is_k, name->layer, static_cast<int32_t>(tensor->ne[1]),
                    static_cast<int32_t>(tensor->ne[2]), static_cast<int32_t>(tensor->ne[0])};
  n_cells_ = entry.n_cells;
  n_streams_ = entry.n_streams;
  tensors_[tensor->data] = entry;
  is_kv_ = is_kv_ || !name->is_k;
  return is_kv_;
}

int32_t KvBuffer::first_layer() const {
  int32_t first = INT32_MAX;
  for (const auto& [address, tensor] : tensors_) first = std::min(first, tensor.layer);
  return first;
}

Result<Cache*> KvBuffer::cache() {
  if (cache_ == nullptr) {
    CacheConfig config;
    config.n_streams = n_streams_;
    config.n_cells = n_cells_;
    config.dense = dense_;
    config.options = options_;
    Result<std::unique_ptr<Cache>> made = Cache::create(config, current_kernels());
    if (!made) return Error{made.error()};
    cache_ = std::move(made.value());
    for (const auto& [address, tensor] : tensors_) {
      geometries_.try_emplace(tensor.layer, some_geometry(tensor.layer));
    }
    for (const auto& [layer, geometry] : geometries_) {
      Result<void> set = cache_->set_geometry(layer, geometry);
      assert(set);
    }
    for (const auto& [layer, n_heads] : query_heads_) cache_->set_query_heads(layer, n_heads);
  }
  return cache_.get();
}

// The fewest heads that divide K and V rows into lengths that kernels take.
LayerGeometry KvBuffer::some_geometry(int32_t layer) const {
  int32_t width_k = 0;
  int32_t width_v = 0;
  for (const auto& [address, tensor] : tensors_) {
    if (tensor.layer == layer) (tensor.is_k ? width_k : width_v) = tensor.width;
  }
  const int32_t common = std::max(1, std::gcd(width_k, width_v));
  for (int32_t heads = 1; heads <= common; ++heads) {
    if (common % heads == 0 && std::max(width_k, width_v) / heads <= kMaxHeadDim) {
      return {heads, width_k / heads, width_v / heads};
    }
  }
  return {common, width_k / common, width_v / common};
}

void KvBuffer::note_foreign(const ggml_tensor* op) {
  if (foreign_.empty()) foreign_ = std::string(ggml_op_name(op->op)) + " (" + op->name + ")";
}

Result<void> KvBuffer::set_geometry(int32_t layer, const LayerGeometry& geometry, int32_t n_heads) {
  geometries_[layer] = geometry;
  query_heads_[layer] = n_heads;
  if (cache_ == nullptr) return {};
  Result<void> set = cache_->set_geometry(layer, geometry);
  if (set) cache_->set_query_heads(layer, n_heads);
  return set;
}

// Rows that come from elsewhere would be in memory twice, there and here, and only what is here is
// under the cap. The stream is lost: its next attention fails.
bool KvBuffer::refuses_restoring(int32_t stream) {
  if (options_.budget_mb == 0) return false;
  if (!refusal_said_) {
    GGML_LOG_ERROR(
        "kvasir: with --kv-budget-mb no sequence is restored or copied, since saved ones do not "
        "count; pass --cache-ram 0 --ctx-checkpoints 0\n");
    refusal_said_ = true;
  }
  if (cache_ != nullptr) cache_->lose_stream(stream);
  return true;
}

// Calls f(layer rows or null, cell, is_k, first byte in row, bytes, byte offset in the request).
template <typename RowFn>
void KvBuffer::for_rows(const ggml_tensor* tensor, size_t offset, size_t size, RowFn f) {
  const CacheTensor& t = *cache_tensor(tensor);
  const size_t row_bytes = z(t.width) * sizeof(uint16_t);
  if (row_bytes == 0 || t.n_cells <= 0) return;
  const auto* root_data = static_cast<const std::byte*>(root_of(tensor)->data);
  const size_t begin =
      static_cast<size_t>(static_cast<const std::byte*>(tensor->data) - root_data) + offset;
  row_.resize(z(t.width));
  for (size_t done = 0; done < size;) {
    const size_t row = (begin + done) / row_bytes;
    const size_t first = (begin + done) % row_bytes;
    const size_t n = std::min(row_bytes - first, size - done);
    const auto stream = static_cast<int32_t>(row / z(t.n_cells));
    const auto cell = static_cast<int32_t>(row % z(t.n_cells));
    assert(stream < t.n_streams);
    f(t, stream, cell, first, n, done);
    done += n;
  }
}

void KvBuffer::read(const ggml_tensor* tensor, void* data, size_t offset, size_t size) {
  const uint16_t nothing_held = cache_ != nullptr && cache_->moves_rows() ? kAbsent : uint16_t{0};
  for_rows(
      tensor, offset, size,
      [&](const CacheTensor& t, int32_t stream, int32_t cell, size_t first, size_t n, size_t done) {
        const LayerCache* rows =
            cache_ == nullptr ? nullptr : std::as_const(*cache_).find(t.layer, stream);
        int32_t slot = cell;
        if (rows != nullptr && rows->placement() == Placement::kByArrival) {
          const auto cells = rows->cells();
          const auto it = std::find(cells.begin(), cells.end(), cell);
          slot = it == cells.end() ? -1 : static_cast<int32_t>(it - cells.begin());
        }
        if (rows == nullptr) {
          std::fill(row_.begin(), row_.end(), nothing_held);
        } else if (slot < 0) {
          std::fill(row_.begin(), row_.end(), kAbsent);
        } else {
          rows->read_row(slot, t.is_k, row_.data());
        }
        std::memcpy(static_cast<std::byte*>(data) + done,
                    reinterpret_cast<const std::byte*>(row_.data()) + first, n);
      });
}

void KvBuffer::write(const ggml_tensor* tensor, const void* data, size_t offset, size_t size) {
  Result<Cache*> made = cache();
  assert(made);
  for_rows(
      tensor, offset, size,
      [&](const CacheTensor& t, int32_t stream, int32_t cell, size_t first, size_t n, size_t done) {
        if (refuses_restoring(stream)) return;
        if (made.value()->moves_rows()) {
          restore(t, stream, cell, static_cast<const std::byte*>(data) + done, first, n);
          return;
        }
        LayerCache& rows = made.value()->layer_cache(t.layer, stream);
        if (!rows.reserve_cell(cell)) return;
        if (n < z(t.width) * sizeof(uint16_t)) {
          t.is_k ? rows.rows().read_k(cell, row_.data()) : rows.rows().read_v(cell, row_.data());
        }
        std::memcpy(reinterpret_cast<std::byte*>(row_.data()) + first,
                    static_cast<const std::byte*>(data) + done, n);
        t.is_k ? rows.rows().write_k(cell, row_.data()) : rows.rows().write_v(cell, row_.data());
      });
}

// A row of a saved stream. Saved streams come in whole rows; rows that had been evicted are full of
// the tag that read() puts there.
void KvBuffer::restore(const CacheTensor& tensor, int32_t stream, int32_t cell,
                       const std::byte* bytes, size_t first, size_t size) {
  const bool whole = first == 0 && size == z(tensor.width) * sizeof(uint16_t);
  if (!whole) {
    cache_->clear_stream(stream);
    return;
  }
  std::memcpy(row_.data(), bytes, size);
  const bool absent =
      std::all_of(row_.begin(), row_.end(), [](uint16_t x) { return x == kAbsent; });
  Result<void> done =
      cache_->restore_row(tensor.layer, stream, cell, tensor.is_k, absent ? nullptr : row_.data());
  if (!done) GGML_LOG_ERROR("kvasir: %s\n", done.error().c_str());
}

bool KvBuffer::copy_stream(const ggml_tensor* src, const ggml_tensor* dst) {
  const CacheTensor* from = cache_tensor(src);
  const CacheTensor* to = cache_tensor(dst);
  if (from == nullptr || to == nullptr || from->layer != to->layer || from->is_k != to->is_k) {
    return false;
  }
  const size_t stream_bytes = z(from->n_cells) * z(from->width) * sizeof(uint16_t);
  if (ggml_nbytes(src) != stream_bytes || ggml_nbytes(dst) != stream_bytes) return false;
  const auto stream_of = [&](const ggml_tensor* t) {
    return static_cast<int32_t>(
        static_cast<size_t>(static_cast<const std::byte*>(t->data) -
                            static_cast<const std::byte*>(root_of(t)->data)) /
        stream_bytes);
  };
  if (options_.budget_mb > 0) {
    refuses_restoring(stream_of(dst));
    return true;
  }
  // K and V of a layer are copied one after the other; the K copy takes both.
  if (from->is_k && cache_ != nullptr) {
    return static_cast<bool>(cache_->copy_layer(from->layer, stream_of(src), stream_of(dst)));
  }
  return true;
}

void KvBuffer::decommit(void* data, size_t size) {
  // Whole memory pages inside the range; base_ starts one.
  const auto first = static_cast<size_t>(static_cast<std::byte*>(data) - base_);
  const size_t begin = (first + kMemoryPage - 1) / kMemoryPage * kMemoryPage;
  const size_t end = (first + size) / kMemoryPage * kMemoryPage;
  if (begin < end) madvise(base_ + begin, end - begin, MADV_DONTNEED);
}

void KvBuffer::clear(uint8_t value) {
  ++n_clears_;
  if (cache_ != nullptr) {
    cache_->clear();
    statistics().reset(id_);
  }
  // Zeros come for free: untouched pages read as zeros and stay uncommitted.
  if (value == 0) {
    madvise(base_, size_, MADV_DONTNEED);
  } else {
    std::memset(base_, value, size_);
  }
}

}  // namespace kvasir::device
