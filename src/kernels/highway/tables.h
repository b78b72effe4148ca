// The tables that Highway compiles, one per instruction set of 256 bits and more, or NEON.
//
// Decides which of them this CPU can run (cpuid, not the compiler's baseline). Does not know the
// reference table. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/kernels.h"

namespace kvasir::highway {

/// Of one architecture: avx2, avx512, avx512_vnni and avx512_bf16, or neon.
inline constexpr size_t kMaxTables = 4;

/// Tables this CPU can run, slowest first; empty on a CPU without any of them.
std::span<const KvKernels* const> supported_tables();

}  // namespace kvasir::highway
