#include "machine_peak.h"

#include <vector>

#include "kernels/highway/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine_peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/highway/supported.h"

#if KVASIR_IS_VECTOR_TARGET
HWY_BEFORE_NAMESPACE();
namespace kvasir::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;

constexpr int64_t kFlopsPerRound = 12 * 2 * static_cast<int64_t>(hn::MaxLanes(F32()));

float fma_rounds(int64_t n) {
  const F32 d;
  const Vec x = hn::Set(d, 0.999f), y = hn::Set(d, 0.001f);
  // Different starts, so that no two chains are the same to the compiler.
  const auto start = [](float value) HWY_ATTR { return hn::Set(F32(), value); };
  Vec a0 = start(0), a1 = start(1), a2 = start(2), a3 = start(3), a4 = start(4), a5 = start(5),
      a6 = start(6), a7 = start(7), a8 = start(8), a9 = start(9), a10 = start(10), a11 = start(11);
  for (int64_t i = 0; i < n; ++i) {
    a0 = hn::MulAdd(a0, x, y), a1 = hn::MulAdd(a1, x, y), a2 = hn::MulAdd(a2, x, y);
    a3 = hn::MulAdd(a3, x, y), a4 = hn::MulAdd(a4, x, y), a5 = hn::MulAdd(a5, x, y);
    a6 = hn::MulAdd(a6, x, y), a7 = hn::MulAdd(a7, x, y), a8 = hn::MulAdd(a8, x, y);
    a9 = hn::MulAdd(a9, x, y), a10 = hn::MulAdd(a10, x, y), a11 = hn::MulAdd(a11, x, y);
  }
  const Vec low = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  const Vec high = hn::Add(hn::Add(hn::Add(a6, a7), hn::Add(a8, a9)), hn::Add(a10, a11));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
}

}  // namespace kvasir::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // KVASIR_IS_VECTOR_TARGET

#if HWY_ONCE
namespace kvasir::bench {
namespace {

std::vector<MachinePeak> find_peaks() {
  std::vector<MachinePeak> peaks;
  const int64_t targets = highway::supported_targets();
#if HWY_TARGETS & HWY_NEON
  if ((targets & HWY_NEON) != 0) {
    peaks.push_back({"neon", N_NEON::fma_rounds, N_NEON::kFlopsPerRound});
  }
#endif
#if HWY_TARGETS & HWY_AVX2
  if ((targets & HWY_AVX2) != 0) {
    peaks.push_back({"avx2", N_AVX2::fma_rounds, N_AVX2::kFlopsPerRound});
  }
#endif
#if HWY_TARGETS & HWY_AVX3
  if ((targets & HWY_AVX3) != 0) {
    peaks.push_back({"avx512", N_AVX3::fma_rounds, N_AVX3::kFlopsPerRound});
  }
#endif
  return peaks;
}

}  // namespace

std::span<const MachinePeak> machine_peaks() {
  static const std::vector<MachinePeak> peaks = find_peaks();
  return peaks;
}

}  // namespace kvasir::bench
#endif  // HWY_ONCE
