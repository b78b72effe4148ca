// The f16 format: where a page of rows keeps its bytes.
//
// A page holds kPageSlots tokens of all KV heads of one layer: first K of every head, then V of
// every head, each head in the layout of kernels.h (K interleaved by kLaneSlots, V row-major).
// Every head starts on a 64-byte boundary. Values are IEEE binary16, little endian.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace kvasir {

/// Shape of one layer's rows.
struct LayerGeometry {
  int32_t n_kv_heads = 0;
  int32_t head_dim_k = 0;
  int32_t head_dim_v = 0;

  int32_t width_k() const { return n_kv_heads * head_dim_k; }  ///< elements of a K row, all heads
  int32_t width_v() const { return n_kv_heads * head_dim_v; }
  friend bool operator==(const LayerGeometry&, const LayerGeometry&) = default;
};

struct F16Page {
  /// Elements of K (V) of one head in a page.
  static constexpr size_t head_elements(int32_t head_dim) {
    return static_cast<size_t>(kPageSlots) * static_cast<size_t>(head_dim);
  }
  static constexpr size_t k_offset(const LayerGeometry& g, int32_t head) {
    return static_cast<size_t>(head) * head_elements(g.head_dim_k);
  }
  static constexpr size_t v_offset(const LayerGeometry& g, int32_t head) {
    return static_cast<size_t>(g.n_kv_heads) * head_elements(g.head_dim_k) +
           static_cast<size_t>(head) * head_elements(g.head_dim_v);
  }
  /// Bytes of a page: the one definition of a row's size (bytes() / kPageSlots a token).
  static constexpr size_t bytes(const LayerGeometry& g) {
    return v_offset(g, g.n_kv_heads) * sizeof(uint16_t);
  }
  /// Index of channel d of slot s inside the K of one head.
  static constexpr size_t k_index(int32_t head_dim_k, int32_t slot, int32_t d) {
    return (static_cast<size_t>(slot / kLaneSlots) * static_cast<size_t>(head_dim_k) +
            static_cast<size_t>(d)) *
               kLaneSlots +
           static_cast<size_t>(slot % kLaneSlots);
  }
};

}  // namespace kvasir
