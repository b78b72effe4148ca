#include "kernels/coded_page.h"

#include "kernels/prepared_queries.h"

namespace kvasir {
namespace {

bool readable(const Packing& packing, int32_t head_dim) {
  return packing.levels != Levels::kNf4 && (packing.bits == 8 || head_dim % kStripChannels == 0);
}

}  // namespace

bool attends_coded(const Packing& k, int32_t head_dim_k, const Packing& v, int32_t head_dim_v) {
  return readable(k, head_dim_k) && readable(v, head_dim_v) &&
         (v.levels == Levels::kSigned || v.bits < 8) && v.scaling != Scaling::kGroupZeroMean;
}

size_t coded_query_bytes(int32_t n_rows, int32_t head_dim_k) {
  return PreparedQueries(nullptr, n_rows, head_dim_k).bytes();
}

}  // namespace kvasir
