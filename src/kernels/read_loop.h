// Reading memory as one core does it best, per instruction set: the bound that attention's GB/s are
// compared with.
//
// Knows no page and no row. Safe in any thread.
#pragma once

#include <cstddef>
#include <span>

namespace kvasir {

struct ReadLoop {
  const char* name;  ///< as in KvKernels::name
  /// Sum of n floats; n is a multiple of kReadStep.
  float (*sum)(const float* data, size_t n);
};

/// Floats that every loop reads in whole steps of.
inline constexpr size_t kReadStep = 128;

/// Loops this CPU can run, slowest first; [0] is plain C++.
std::span<const ReadLoop> read_loops();

}  // namespace kvasir
