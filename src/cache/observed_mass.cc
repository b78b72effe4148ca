// Attention mass of a prompt's last queries: two passes over K, so that no row of scores is kept.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cache/attention.h"
#include "cache/attention_call.h"
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
  const float* cold_q[kBlockRows];  // what compressed pages read
};

struct Observer {
  LayerCache& rows;
  const AttentionShape& shape;
  const KvKernels& kernels;
  std::span<const float> slopes;
  ReadOrder order;
  std::span<const int32_t> positions;  // [n_places], padding counts as past every query

  // Rows [first, first + kBlockRows) of one KV head; a row is (query of the ring, query head).
  // turned: [kBlockRows, head_dim_k] room for turned queries; empty where none are needed.
  Block block(int32_t head, int32_t first, std::span<float> turned) const {
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
      b.cold_q[r] = b.q[r];
      if (turned.empty()) continue;
      float* q = turned.data() + ptrdiff_t{r} * g.head_dim_k;
      std::copy_n(b.q[r], g.head_dim_k, q);
      turn_row(q, g.head_dim_k);
      b.cold_q[r] = q;
    }
    return b;
  }

  // One page against a block: updates m and s, and writes scores where they are asked for.
  void page(const Block& b, int32_t head, int32_t page, const SoftmaxState& state, float* scores,
            PageScratch& scratch) const {
    const LayerGeometry& g = rows.rows().geometry();
    const int32_t base = page * kPageSlots;
    const int32_t n_slots = order.slots_in(page);
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
    const PageRows page_rows = read_page(rows, order, page, head, kernels, scratch, false);
    a.k = page_rows.k;
    a.v = page_rows.v;
    a.head_dim_k = g.head_dim_k;
    a.head_dim_v = 1;  // only the softmax is wanted: one channel of V instead of all
    a.n_slots = n_slots;
    a.n_rows = b.n_rows;
    a.q = order.is_cold(page) ? b.cold_q : b.q;
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
  const ReadOrder order = rows.read_order();
  const int32_t n_pages = order.n_pages();
  const float weight = 1.0F / static_cast<float>(n_queries * shape.n_heads);
  workspace.slopes.resize(z(shape.n_heads));
  alibi_slopes(shape.max_bias, workspace.slopes);
  const size_t stride = z(n_pages) * kPageSlots;
  if (workspace.scores.size() < z(g.n_kv_heads) * stride) {
    workspace.scores.resize(z(g.n_kv_heads) * stride);
  }
  std::fill_n(workspace.scores.begin(), z(g.n_kv_heads) * stride, 0.0F);
  std::span<const int32_t> positions = rows.positions();
  if (!order.is_identity()) {
    workspace.places.resize(z(order.n_places()));
    order.to_places(positions, INT32_MAX, std::span<int32_t>(workspace.places));
    positions = workspace.places;
  }
  const bool turned = order.n_cold > 0 && attention::turns(rows);
  workspace.reserve_workers(parallel.n_workers(), kBlockRows, g.head_dim_k, g.head_dim_v);
  const Observer observer{rows, shape, kernels, workspace.slopes, order, positions};
  parallel.run(g.n_kv_heads, [&](int64_t item, int32_t worker_index) {
    AttentionWorkspace::Worker& worker = workspace.workers[z(worker_index)];
    if (turned)
      worker.turned_q.resize(std::max(worker.turned_q.size(), z(kBlockRows) * z(g.head_dim_k)));
    const std::span<float> turned_q =
        turned ? std::span<float>(worker.turned_q) : std::span<float>();
    const auto head = static_cast<int32_t>(item);
    float* head_mass = workspace.scores.data() + z(head) * stride;
    for (int32_t first = 0; first < n_queries * q_per_kv; first += kBlockRows) {
      Block b = observer.block(head, first, turned_q);
      const SoftmaxState state{b.m, b.s, b.acc, 1};
      for (int32_t p = 0; p < n_pages; ++p) observer.page(b, head, p, state, nullptr, worker.page);
      join_sinks(shape, head, first, q_per_kv, b);
      Block again = b;
      const SoftmaxState unused{again.m, again.s, again.acc, 1};
      float scores[kBlockRows * kPageSlots];
      for (int32_t p = 0; p < n_pages; ++p) {
        observer.page(b, head, p, unused, scores, worker.page);
        const int32_t n = order.slots_in(p);
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
    for (int32_t i = 0; i < n_slots; ++i) mass[z(i)] += head_mass[order.place_of(i)];
  }
}

}  // namespace kvasir
