// Counts what a test program allocates: count_allocations.cc replaces its operator new.
#pragma once

#include <atomic>
#include <cstdint>

namespace kvasir {

extern std::atomic<int64_t> n_allocations;

}  // namespace kvasir
