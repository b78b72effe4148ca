// The memory of a context as ggml sees it, and the Cache behind it.
//
// A buffer starts as plain host memory in ggml's layout: reserved, committed only where touched.
// When a V cache is placed in it (init_tensor), it becomes a KV buffer: its rows live in a Cache,
// its addresses are only names, and its type is no longer a host type, so that whoever else reads
// such a tensor gets a copy through get_tensor and whoever else writes it is refused by the
// scheduler. Caches with K only (MLA) and everything that is not named cache_k_l*/cache_v_l* stay
// plain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/cache.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"

namespace kvasir::device {

/// The two buffer types of the device: plain host memory, and memory whose rows a Cache holds.
ggml_backend_buffer_type_t plain_buffer_type();
ggml_backend_buffer_type_t kv_buffer_type();

/// A K or V cache tensor of a KV buffer.
struct CacheTensor {
  bool is_k = false;
  int32_t layer = -1;
  int32_t n_cells = 0;
  int32_t n_streams = 0;
  int32_t width = 0;  ///< elements of a row, all KV heads
};

class KvBuffer {
 public:
  /// Address space of `size` bytes; null if there is none.
  static std::unique_ptr<KvBuffer> reserve(size_t size);
  ~KvBuffer();
  KvBuffer(const KvBuffer&) = delete;
  KvBuffer& operator=(const KvBuffer&) = delete;

  /// The KvBuffer of a tensor's root; null if another backend owns it.
  static KvBuffer* of(const ggml_tensor* tensor);
  /// The cache tensor that `tensor` is or views; null if it is not one whose rows a Cache holds.
  static const CacheTensor* cache_tensor(const ggml_tensor* tensor);
  /// True if `tensor` is, or in a dummy buffer would become, a cache tensor.
  static bool is_managed(const ggml_tensor* tensor);

  std::byte* base() const { return base_; }
  /// Notes a tensor placed here. True if this is now a KV buffer.
  bool place(const ggml_tensor* tensor);
  bool is_kv() const { return is_kv_; }
  /// Makes the buffer of `tensor` plain memory again, for good, while no rows were stored.
  static void give_up(const ggml_tensor* tensor);

  int32_t n_cells() const { return n_cells_; }
  int32_t n_streams() const { return n_streams_; }
  int32_t first_layer() const;

  /// How rows of a layer are cut into heads, as its attention of n_heads query heads reads them.
  /// Layers of which nothing is said are cut in some way that fits. n_heads 0: not known.
  Result<void> set_geometry(int32_t layer, const LayerGeometry& geometry, int32_t n_heads = 0);

  /// Notes an operation that reads or writes rows here without the device. Policies that evict
  /// refuse such a model: what is evicted cannot be read.
  void note_foreign(const ggml_tensor* op);
  /// The first such operation, as text; empty if there was none.
  const std::string& foreign() const { return foreign_; }

  /// Whether sliding-window rules hold here; before the cache is made.
  void set_dense(bool dense) { dense_ = dense; }
  /// The cache, made at first use with the options in force when the buffer was made.
  Result<Cache*> cache();
  Cache* cache_if_made() { return cache_.get(); }
  const CacheOptions& options() const { return options_; }

  /// The ubatch in which a layer last took rows; written by the backend.
  int64_t& last_epoch(int32_t layer) { return last_epoch_[layer]; }

  /// Reads or writes bytes of a cache tensor or a view of one. Rows that the cache does not hold
  /// read as zeros (policy without eviction) or as NaN.
  void read(const ggml_tensor* tensor, void* data, size_t offset, size_t size);
  void write(const ggml_tensor* tensor, const void* data, size_t offset, size_t size);
  /// Copies one stream of a layer onto another where src and dst are such. False: not that case.
  bool copy_stream(const ggml_tensor* src, const ggml_tensor* dst);
  /// Drops every row and sets plain memory to `value`.
  void clear(uint8_t value);
  /// Gives plain memory in [data, data + size) back to the system; it reads as zeros.
  void decommit(void* data, size_t size);

  int64_t id() const { return id_; }
  /// The id that the next buffer gets.
  static int64_t next_id();
  /// The living buffers with first <= id < last, by id.
  static std::vector<KvBuffer*> made_between(int64_t first, int64_t last);
  /// How often clear() was called.
  int64_t n_clears() const { return n_clears_; }

 private:
  KvBuffer(std::byte* base, size_t size);
  LayerGeometry some_geometry(int32_t layer) const;
  bool refuses_restoring(int32_t stream);
  void restore(const CacheTensor& tensor, int32_t stream, int32_t cell, const std::byte* bytes,
               size_t first, size_t size);
  template <typename RowFn>
  void for_rows(const ggml_tensor* tensor, size_t offset, size_t size, RowFn f);

  std::byte* base_;
  size_t size_;
  int64_t id_;
  int64_t n_clears_ = 0;
  bool is_kv_ = false;
  bool given_up_ = false;
  bool refusal_said_ = false;
  bool dense_ = false;
  int32_t n_cells_ = 0;
  int32_t n_streams_ = 0;
  CacheOptions options_;
  std::map<const void*, CacheTensor> tensors_;   // by address
  std::map<int32_t, LayerGeometry> geometries_;  // by layer
  std::map<int32_t, int32_t> query_heads_;       // by layer
  std::map<int32_t, int64_t> last_epoch_;        // by layer
  std::string foreign_;
  std::unique_ptr<Cache> cache_;
  std::vector<uint16_t> row_;  // scratch
};

}  // namespace kvasir::device
