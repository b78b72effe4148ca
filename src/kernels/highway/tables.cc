#include "kernels/highway/tables.h"

#include <array>

#include "kernels/highway/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway/tables.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/highway/supported.h"

#if KVASIR_IS_VECTOR_TARGET

#include "kernels/highway/attend-inl.h"
#include "kernels/highway/dot_rows-inl.h"
#include "kernels/highway/logit_sums-inl.h"
#include "kernels/highway/restore-inl.h"
#include "kernels/highway/rows-inl.h"
#include "kernels/highway/sketch-inl.h"
#include "kernels/highway/turn_row-inl.h"
#include "kernels/highway/unpack-inl.h"
#if HWY_TARGET == HWY_AVX3
#include "kernels/highway/attend_bf16-inl.h"
#include "kernels/highway/attend_coded-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace kvasir::highway::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2
#define KVASIR_TABLE_NAME "avx2"
#elif HWY_TARGET == HWY_AVX3
#define KVASIR_TABLE_NAME "avx512"
#elif HWY_TARGET == HWY_NEON
#define KVASIR_TABLE_NAME "neon"
#else
#error "a target without a name; see targets.h"
#endif

extern const KvKernels kTable;
const KvKernels kTable{KVASIR_TABLE_NAME, attend_page, store_k,    store_v,     add_mass,
                       logit_sums,        unpack_rows, nullptr,    nullptr,     dot_rows,
                       turn_row,          restore_row, rotate_row, score_sketch};

#undef KVASIR_TABLE_NAME

#if HWY_TARGET == HWY_AVX3
extern const KvKernels kVnniTable;
const KvKernels kVnniTable{"avx512_vnni", attend_page, store_k,      store_v,     add_mass,
                           logit_sums,    unpack_rows, attend_coded, nullptr,     dot_rows,
                           turn_row,      restore_row, rotate_row,   score_sketch};
extern const KvKernels kBf16Table;
const KvKernels kBf16Table{"avx512_bf16", attend_page, store_k,      store_v,          add_mass,
                           logit_sums,    unpack_rows, attend_coded, attend_page_bf16, dot_rows,
                           turn_row,      restore_row, rotate_row,   score_sketch};
#endif

}  // namespace kvasir::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_IS_VECTOR_TARGET

#if HWY_ONCE
namespace kvasir::highway {
namespace {

struct Supported {
  Supported() {
    const int64_t targets = supported_targets();
#if HWY_TARGETS & HWY_NEON
    if ((targets & HWY_NEON) != 0) tables[count++] = &N_NEON::kTable;
#endif
#if HWY_TARGETS & HWY_AVX2
    if ((targets & HWY_AVX2) != 0) tables[count++] = &N_AVX2::kTable;
#endif
#if HWY_TARGETS & HWY_AVX3
    if ((targets & HWY_AVX3) != 0) tables[count++] = &N_AVX3::kTable;
    if ((targets & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vnni")) {
      tables[count++] = &N_AVX3::kVnniTable;
      if (__builtin_cpu_supports("avx512bf16")) tables[count++] = &N_AVX3::kBf16Table;
    }
#endif
  }

  std::array<const KvKernels*, kMaxTables> tables{};
  size_t count = 0;
};

}  // namespace

std::span<const KvKernels* const> supported_tables() {
  static const Supported instance;
  return {instance.tables.data(), instance.count};
}

}  // namespace kvasir::highway
#endif  // HWY_ONCE
