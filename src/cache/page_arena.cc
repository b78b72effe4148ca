#include "cache/page_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>

namespace kvasir {
namespace {

constexpr size_t kMemoryPage = 4096;
constexpr size_t kSlabBytes = size_t{64} << 20;  // reserved, not committed

}  // namespace

size_t PageArena::footprint(size_t bytes) {
  return (bytes + kMemoryPage - 1) / kMemoryPage * kMemoryPage;
}

int32_t PageArena::thrifty_count(size_t bytes, int32_t most) {
  int32_t best = 1;
  double least = 1e9;
  for (int32_t n = 1; n <= most; ++n) {
    const size_t together = bytes * static_cast<size_t>(n);
    const double waste =
        static_cast<double>(footprint(together)) / static_cast<double>(together) - 1;
    if (waste < least) {
      least = waste;
      best = n;
    }
    if (waste <= 0.02) break;
  }
  return best;
}

PageArena::~PageArena() {
  for (auto& [size, size_class] : classes_) {
    for (const Slab& slab : size_class.slabs) munmap(slab.base, slab.size);
  }
}

std::byte* PageArena::allocate(size_t bytes) {
  const size_t size = footprint(bytes);
  const std::lock_guard lock(mutex_);
  SizeClass& size_class = classes_[size];
  if (!size_class.free.empty()) {
    std::byte* page = size_class.free.back();
    size_class.free.pop_back();
    return page;
  }
  if (size_class.slabs.empty() ||
      size_class.slabs.back().used + size > size_class.slabs.back().size) {
    const size_t slab_size = std::max(kSlabBytes / size, size_t{1}) * size;
    void* base = mmap(nullptr, slab_size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    // Huge pages would commit neighbours that nobody asked for.
    madvise(base, slab_size, MADV_NOHUGEPAGE);
    size_class.slabs.push_back({static_cast<std::byte*>(base), slab_size, 0});
    size_class.free.reserve(size_class.free.capacity() + slab_size / size);
  }
  Slab& slab = size_class.slabs.back();
  std::byte* page = slab.base + slab.used;
  slab.used += size;
  return page;
}

void PageArena::release(std::byte* page, size_t bytes) {
  assert(page != nullptr);
  const size_t size = footprint(bytes);
  madvise(page, size, MADV_DONTNEED);
  const std::lock_guard lock(mutex_);
  classes_[size].free.push_back(page);
}

}  // namespace kvasir
