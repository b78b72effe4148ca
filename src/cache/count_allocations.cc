#include "cache/count_allocations.h"

#include <cstdlib>
#include <new>

namespace kvasir {

std::atomic<int64_t> n_allocations{0};

}  // namespace kvasir

[[gnu::noinline]] void* operator new(size_t bytes) {
  ++kvasir::n_allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
