#include "cache/page_rows.h"

#include <algorithm>
#include <cassert>

namespace kvasir {
namespace {

constexpr size_t kLine = 64 / sizeof(uint16_t);  // elements of a cache line

size_t page_elements(int32_t head_dim) {
  const size_t n = static_cast<size_t>(kPageSlots) * static_cast<size_t>(head_dim);
  return (n + kLine - 1) / kLine * kLine;
}

}  // namespace

void PageScratch::reserve(int32_t head_dim_k, int32_t head_dim_v) {
  k_size_ = std::max(k_size_, page_elements(head_dim_k));
  const size_t n = k_size_ + page_elements(head_dim_v) + kLine;
  if (tiles_.size() < n) tiles_.resize(n);
  const size_t n_rows = page_elements(std::max(head_dim_k, head_dim_v));
  if (rows_.size() < n_rows) rows_.resize(n_rows);
}

uint16_t* PageScratch::aligned(size_t offset) {
  const auto address = reinterpret_cast<uintptr_t>(tiles_.data());
  const uintptr_t up = (address + 63) / 64 * 64;
  return tiles_.data() + (up - address) / sizeof(uint16_t) + offset;
}

PageRows read_page(const LayerCache& rows, const ReadOrder& order, int32_t page, int32_t head,
                   const KvKernels& kernels, PageScratch& scratch, bool with_v) {
  if (!order.is_cold(page)) {
    if (!rows.rows().has_page(page)) return {};
    return {rows.rows().k(page, head), rows.rows().v(page, head)};
  }
  const LayerGeometry& g = rows.rows().geometry();
  const int32_t first = order.first_in_tier(page);
  const int32_t n = order.slots_in(page);
  scratch.reserve(g.head_dim_k, g.head_dim_v);
  rows.read_cold_k(head, first, n, scratch.rows());
  kernels.store_k(scratch.k(), g.head_dim_k, 0, n, scratch.rows(), g.head_dim_k);
  if (with_v) {
    rows.read_cold_v(head, first, n, scratch.rows());
    kernels.store_v(scratch.v(), g.head_dim_v, 0, n, scratch.rows(), g.head_dim_v);
  }
  return {scratch.k(), scratch.v()};
}

}  // namespace kvasir
