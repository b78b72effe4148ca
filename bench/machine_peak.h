// What one core can do at best: FMAs from registers, per instruction set.
//
// The bound that the kernels' figures are compared with, beside that of kernels/read_loop.h. Knows
// no kernel. Safe in any thread.
#pragma once

#include <cstdint>
#include <span>

namespace kvasir::bench {

struct MachinePeak {
  const char* name;  ///< as in KvKernels::name

  /// Runs `n` rounds of independent FMAs in registers; returns something that depends on them.
  float (*fma_rounds)(int64_t n);
  int64_t flops_per_round;
};

/// One entry per table that Highway compiled and this CPU can run, in the order of
/// supported_kernels() without the reference.
std::span<const MachinePeak> machine_peaks();

}  // namespace kvasir::bench
