// Attention mass of a prompt's last queries: two passes over K, so that no row of scores is kept.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "cache/attention.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr int32_t kBlockRows = 32;  // query rows of one kernel call

size_t z(int64_t n) { return static_cast<size_t>(n); }

struct Block {
  int32_t n_rows;
  const float* q[kBlockRows];
  float slope[kBlockRows];
  int32_t position[kBlockRows];
  float m[kBlockRows];
  float s[kBlockRows];
  float acc[kBlockRows];
};

struct Observer {
  LayerCache& rows;
  const AttentionShape& shape;
  const KvKernels& kernels;
  std::span<const float> slopes;

  // Rows [first, first + kBlockRows) of one KV head; a row is (query of the ring, query head).
  Block block(int32_t head, int32_t first) const {
    const LayerGeometry& g = rows.rows().geometry();
    const int32_t q_per_kv = shape.n_heads / g.n_kv_heads;
    Block b{};
    b.n_rows = std::min(kBlockRows, rows.ring().size() * q_per_kv - first);
    for (int32_t r = 0; r < b.n_rows; ++r) {
      const int32_t query = (first + r) / q_per_kv;
      const int32_t q_head = head * q_per_kv + (first + r) % q_per_kv;
      b.q[r] = rows.ring().row(query) + ptrdiff_t{q_head} * g.head_dim_k;
      b.slope[r] = slopes[z(q_head)];
      b.position[r] = rows.ring().position(query);
      b.m[r] = -std::numeric_limits<float>::infinity();
    }
    return b;
  }

  // One page against a block: updates m and s, and writes scores where they are asked for.
  void page(const Block& b, int32_t head, int32_t page, const SoftmaxState& state,
            float* scores) const {
    const LayerGeometry& g = rows.rows().geometry();
    const std::span<const int32_t> positions = rows.positions();
    const int32_t base = page * kPageSlots;
    const int32_t n_slots = std::min(kPageSlots, rows.n_slots() - base);
    uint16_t values[kBlockRows][kPageSlots];
    const uint16_t* masks[kBlockRows];
    float* score_rows[kBlockRows];
    for (int32_t r = 0; r < b.n_rows; ++r) {
      score_rows[r] = scores + ptrdiff_t{r} * kPageSlots;
      const bool all = positions[z(base + n_slots - 1)] <= b.position[r];
      masks[r] = all && shape.max_bias <= 0 ? nullptr : values[r];
      for (int32_t i = 0; masks[r] != nullptr && i < n_slots; ++i) {
        const int32_t distance = b.position[r] - positions[z(base + i)];
        values[r][i] =
            distance < 0
                ? kF16MinusInf
                : (shape.max_bias > 0 ? float_to_half(-static_cast<float>(distance)) : uint16_t{0});
      }
    }
    PageArgs a{};
    a.k = rows.rows().k(page, head);
    a.v = rows.rows().v(page, head);
    a.head_dim_k = g.head_dim_k;
    a.head_dim_v = 1;  // only the softmax is wanted: one channel of V instead of all
    a.n_slots = n_slots;
    a.n_rows = b.n_rows;
    a.q = b.q;
    a.scale = shape.scale;
    a.soft_cap = shape.soft_cap;
    a.mask = masks;
    a.slope = shape.max_bias > 0 ? b.slope : nullptr;
    a.scores = scores == nullptr ? nullptr : score_rows;
    kernels.attend_page(a, state);
  }
};

void join_sinks(const AttentionShape& shape, int32_t head, int32_t first, int32_t q_per_kv,
                Block& b) {
  if (shape.sinks.empty()) return;
  for (int32_t r = 0; r < b.n_rows; ++r) {
    const float sink = shape.sinks[z(head * q_per_kv + (first + r) % q_per_kv)];
    const float m = std::max(b.m[r], sink);
    b.s[r] = (b.m[r] == m ? b.s[r] : b.s[r] * std::exp(b.m[r] - m)) + std::exp(sink - m);
    b.m[r] = m;
  }
}

}  // namespace

void observed_mass(LayerCache& rows, const AttentionShape& shape, const KvKernels& kernels,
                   ParallelFor& parallel, AttentionWorkspace& workspace, std::span<float> mass) {
  const LayerGeometry& g = rows.rows().geometry();
  const int32_t n_slots = rows.n_slots();
  assert(mass.size() == z(n_slots) && shape.n_heads % g.n_kv_heads == 0);
  std::fill(mass.begin(), mass.end(), 0.0F);
  const int32_t n_queries = rows.ring().size();
  if (n_queries == 0 || n_slots == 0) return;
  const int32_t q_per_kv = shape.n_heads / g.n_kv_heads;
  const int32_t n_pages = (n_slots + kPageSlots - 1) / kPageSlots;
  const float weight = 1.0F / static_cast<float>(n_queries * shape.n_heads);
  workspace.slopes.resize(z(shape.n_heads));
  alibi_slopes(shape.max_bias, workspace.slopes);
  const size_t stride = z(n_pages) * kPageSlots;
  if (workspace.scores.size() < z(g.n_kv_heads) * stride) {
    workspace.scores.resize(z(g.n_kv_heads) * stride);
  }
  std::fill_n(workspace.scores.begin(), z(g.n_kv_heads) * stride, 0.0F);
  const Observer observer{rows, shape, kernels, workspace.slopes};
  parallel.run(g.n_kv_heads, [&](int64_t item, int32_t) {
    const auto head = static_cast<int32_t>(item);
    float* head_mass = workspace.scores.data() + z(head) * stride;
    for (int32_t first = 0; first < n_queries * q_per_kv; first += kBlockRows) {
      Block b = observer.block(head, first);
      const SoftmaxState state{b.m, b.s, b.acc, 1};
      for (int32_t p = 0; p < n_pages; ++p) observer.page(b, head, p, state, nullptr);
      join_sinks(shape, head, first, q_per_kv, b);
      Block again = b;
      const SoftmaxState unused{again.m, again.s, again.acc, 1};
      float scores[kBlockRows * kPageSlots];
      for (int32_t p = 0; p < n_pages; ++p) {
        observer.page(b, head, p, unused, scores);
        const int32_t n = std::min(kPageSlots, n_slots - p * kPageSlots);
        for (int32_t r = 0; r < b.n_rows; ++r) {
          if (!(b.s[r] > 0)) continue;
          kernels.add_mass(scores + ptrdiff_t{r} * kPageSlots, n, b.m[r], b.s[r], weight,
                           head_mass + ptrdiff_t{p} * kPageSlots);
        }
      }
    }
  });
  for (int32_t h = 0; h < g.n_kv_heads; ++h) {
    const float* head_mass = workspace.scores.data() + z(h) * stride;
    for (int32_t i = 0; i < n_slots; ++i) mass[z(i)] += head_mass[i];
  }
}

}  // namespace kvasir
