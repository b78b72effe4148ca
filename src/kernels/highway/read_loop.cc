#include "kernels/read_loop.h"

#include <vector>

#include "kernels/highway/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway/read_loop.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/highway/supported.h"

#if KVASIR_IS_VECTOR_TARGET
HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float read_sum(const float* data, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (size_t i = 0; i < n; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, data + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, data + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // KVASIR_IS_VECTOR_TARGET

#if HWY_ONCE
namespace kvasir {
namespace {

float plain_sum(const float* data, size_t n) {
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;  // four chains, so that additions do not wait
  for (size_t i = 0; i < n; i += 4) {
    s0 += data[i], s1 += data[i + 1], s2 += data[i + 2], s3 += data[i + 3];
  }
  return (s0 + s1) + (s2 + s3);
}

std::vector<ReadLoop> find_loops() {
  std::vector<ReadLoop> loops = {{"reference", plain_sum}};
  [[maybe_unused]] const int64_t targets = highway::supported_targets();
#if HWY_TARGETS & HWY_NEON
  if ((targets & HWY_NEON) != 0) loops.push_back({"neon", highway::N_NEON::read_sum});
#endif
#if HWY_TARGETS & HWY_AVX2
  if ((targets & HWY_AVX2) != 0) loops.push_back({"avx2", highway::N_AVX2::read_sum});
#endif
#if HWY_TARGETS & HWY_AVX3
  if ((targets & HWY_AVX3) != 0) loops.push_back({"avx512", highway::N_AVX3::read_sum});
#endif
  return loops;
}

}  // namespace

std::span<const ReadLoop> read_loops() {
  static const std::vector<ReadLoop> loops = find_loops();
  return loops;
}

}  // namespace kvasir
#endif  // HWY_ONCE
