// Which of the compiled instruction sets this CPU runs. Include behind hwy/highway.h.
//
// Every CPU of AArch64 has NEON. Highway answers "no" where AES is missing, which some lack (the
// Raspberry Pi 4's) and nothing here uses. Thread-safe.
#pragma once

#include <cstdint>

#include "hwy/targets.h"

namespace kvasir::highway {

/// Bits HWY_NEON, HWY_AVX2 and so on.
inline int64_t supported_targets() {
#if HWY_ARCH_ARM_A64
  return HWY_NEON;
#else
  return hwy::SupportedTargets();
#endif
}

}  // namespace kvasir::highway
