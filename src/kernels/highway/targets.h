// Which of Highway's instruction sets are compiled. Include before any header of Highway.
//
// Kept: AVX2, AVX3 (AVX-512 as of Skylake) and 64-bit NEON, because they convert f16 in one
// instruction. Everything else runs the reference table.
#pragma once

#include "hwy/detect_compiler_arch.h"

#if HWY_ARCH_ARM_V7
#define KVASIR_DISABLED_NEON HWY_NEON  // no f64 vectors
#else
#define KVASIR_DISABLED_NEON 0
#endif

#define HWY_DISABLED_TARGETS                                                                      \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | KVASIR_DISABLED_NEON | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV | HWY_WASM | HWY_WASM_EMU256 | HWY_PPC8)

// True while foreach_target compiles one of the kept sets; Highway always adds a scalar one.
#define KVASIR_IS_VECTOR_TARGET (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
