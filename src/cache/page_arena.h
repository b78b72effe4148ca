// Memory for pages of rows: address space reserved in slabs, pages given out and taken back one by
// one.
//
// A page that is given back leaves the process's resident memory at once (MADV_DONTNEED), so that
// what the cache reports is what it holds. Pages of one size come from one free list. Thread-safe:
// layers evict at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace kvasir {

class PageArena {
 public:
  PageArena() = default;
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  /// A page of at least `bytes` bytes, 4096-byte aligned; null when the system has no memory left.
  /// Contents are unspecified.
  std::byte* allocate(size_t bytes);

  /// Takes back a page that allocate(bytes) gave.
  void release(std::byte* page, size_t bytes);

  /// What a page of `bytes` occupies: `bytes` rounded up to whole memory pages.
  static size_t footprint(size_t bytes);

  /// How many pieces of `bytes` a page should hold, 1 to `most`: the fewest of which
  /// rounding to memory pages wastes at most one part in fifty, else those that waste least.
  static int32_t thrifty_count(size_t bytes, int32_t most);

 private:
  struct Slab {
    std::byte* base;
    size_t size;
    size_t used;
  };
  struct SizeClass {
    std::vector<Slab> slabs;
    std::vector<std::byte*> free;
  };
  std::mutex mutex_;
  std::map<size_t, SizeClass> classes_;  // by footprint
};

}  // namespace kvasir
