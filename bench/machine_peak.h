// What one core can do at best: FMAs from registers and reads of memory, per instruction set.
//
// The bounds that the kernels' figures are compared with. Knows no kernel. Safe in any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvasir::bench {

struct MachinePeak {
  const char* name;  ///< as in KvKernels::name

  /// Runs `n` rounds of independent FMAs in registers; returns something that depends on them.
  float (*fma_rounds)(int64_t n);
  int64_t flops_per_round;

  /// Sum of n floats; n is a multiple of 128.
  float (*read)(const float* data, size_t n);
};

/// One entry per table that Highway compiled and this CPU can run, in the order of
/// supported_kernels() without the reference.
std::span<const MachinePeak> machine_peaks();

}  // namespace kvasir::bench
