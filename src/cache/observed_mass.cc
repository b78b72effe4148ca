// Attention mass of queries after the fact: two passes over K, so that no row of scores is kept.
//
// The first pass gives maximum and sum of each query and head, the second the weights, page by
// page. For each page queries come in order, and for each query its heads do: sums are the same
// however queries were cut into calls and whichever worker took a page.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "cache/attention.h"
#include "cache/attention_call.h"
#include "cache/scratch.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr int32_t kBlockRows = 32;    // query rows of one kernel call
constexpr int32_t kBlockQueries = 8;  // queries whose mass over a page is held at once

size_t z(int64_t n) { return static_cast<size_t>(n); }

// Some rows of one KV head; a row is (query, query head of the KV head).
struct Block {
  int32_t n_rows;
  const float* q[kBlockRows];
  const float* turned_q[kBlockRows];
  float slope[kBlockRows];
  int32_t position[kBlockRows];
  int32_t newest;  // the largest position
  float m[kBlockRows];
  float s[kBlockRows];
  float acc[kBlockRows];
};

struct Observer {
  const LayerCache& rows;
  const AttentionShape& shape;
  const MassQueries& queries;
  const KvKernels& kernels;
  AttentionWorkspace& workspace;
  ReadOrder order;
  std::span<const int32_t> positions;  // [n_places], padding past every query
  bool turned;                         // compressed pages read turned queries

  int32_t q_per_kv() const { return shape.n_heads / rows.rows().geometry().n_kv_heads; }
  int32_t n_queries() const { return static_cast<int32_t>(queries.positions.size()); }
  int32_t n_pages() const { return order.n_pages(); }

  // Rows [first, first + kBlockRows) of one KV head, but none at or past `end`.
  Block block(int32_t head, int32_t first, int32_t end) const {
    Block b{};
    b.n_rows = std::min(kBlockRows, end - first);
    b.newest = std::numeric_limits<int32_t>::min();
    for (int32_t r = 0; r < b.n_rows; ++r) {
      const int32_t query = (first + r) / q_per_kv();
      const int32_t q_head = head * q_per_kv() + (first + r) % q_per_kv();
      b.q[r] = queries.q + query * queries.query_stride + q_head * queries.head_stride;
      b.slope[r] = workspace.slopes[z(q_head)];
      b.position[r] = queries.positions[z(query)];
      b.newest = std::max(b.newest, b.position[r]);
      b.m[r] = -std::numeric_limits<float>::infinity();
    }
    return b;
  }

  // Where maximum and sum of a block's row are kept between the passes.
  size_t at(int32_t head, int32_t row) const {
    return z(int64_t{row / q_per_kv()} * shape.n_heads + int64_t{head} * q_per_kv() +
             row % q_per_kv());
  }

  bool sees(const Block& b, int32_t page) const {
    return positions[z(int64_t{page} * kPageSlots)] <= b.newest;
  }

  // What the block's queries are where keys lie turned; valid until the worker's next call.
  void turn(Block& b, AttentionWorkspace::Worker& worker) const {
    const int32_t width = rows.rows().geometry().head_dim_k;
    make_room(worker.turned_q, z(kBlockRows) * z(width));
    for (int32_t r = 0; r < b.n_rows; ++r) {
      float* q = worker.turned_q.data() + ptrdiff_t{r} * width;
      std::copy_n(b.q[r], width, q);
      turn_row(q, width);
      b.turned_q[r] = q;
    }
  }

  // One page against a block: updates m and s, and writes scores where they are asked for.
  void attend(const Block& b, int32_t head, int32_t page, const SoftmaxState& state, float* scores,
              AttentionWorkspace::Worker& worker) const {
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
    const PageRows data = read_page(rows, order, page, head, kernels, worker.page, false);
    a.k = data.k;
    a.v = data.v;
    a.head_dim_k = g.head_dim_k;
    a.head_dim_v = 1;  // only the softmax is wanted: one channel of V instead of all
    a.n_slots = n_slots;
    a.n_rows = b.n_rows;
    a.q = turned && order.is_cold(page) ? b.turned_q : b.q;
    a.scale = shape.scale;
    a.soft_cap = shape.soft_cap;
    a.mask = masks;
    a.slope = shape.max_bias > 0 ? b.slope : nullptr;
    a.scores = scores == nullptr ? nullptr : score_rows;
    kernels.attend_page(a, state);
  }

  // First pass: the softmax of some rows of a KV head over all that they see.
  void normalise(int32_t head, int32_t first, AttentionWorkspace::Worker& worker) const {
    Block b = block(head, first, n_queries() * q_per_kv());
    if (turned) turn(b, worker);
    const SoftmaxState state{b.m, b.s, b.acc, 1};
    for (int32_t p = 0; p < n_pages(); ++p) {
      if (sees(b, p)) attend(b, head, p, state, nullptr, worker);
    }
    for (int32_t r = 0; r < b.n_rows; ++r) {
      const size_t to = at(head, first + r);
      join_sink(z(int64_t{head} * q_per_kv() + (first + r) % q_per_kv()), b.m[r], b.s[r]);
      workspace.query_m[to] = b.m[r];
      workspace.query_s[to] = b.s[r];
    }
  }

  void join_sink(size_t q_head, float& m, float& s) const {
    if (shape.sinks.empty()) return;
    const float sink = shape.sinks[q_head];
    const float joined = std::max(m, sink);
    s = (m == joined ? s : s * std::exp(m - joined)) + std::exp(sink - joined);
    m = joined;
  }

  // Second pass: mass of queries [first, end) over one page, heads reduced, [kPageSlots] a query.
  // False if none of them sees the page.
  bool page_mass(int32_t page, int32_t first, int32_t end, HeadReduction heads,
                 float (*mass)[kPageSlots], AttentionWorkspace::Worker& worker) const {
    const int32_t n_slots = order.slots_in(page);
    const bool most = heads == HeadReduction::kMax;
    const float weight = most ? 1.0F : 1.0F / static_cast<float>(shape.n_heads);
    bool any = false;
    for (int32_t q = 0; q < end - first; ++q) std::fill_n(mass[q], kPageSlots, 0.0F);
    for (int32_t head = 0; head < rows.rows().geometry().n_kv_heads; ++head) {
      for (int32_t row = first * q_per_kv(); row < end * q_per_kv(); row += kBlockRows) {
        Block b = block(head, row, end * q_per_kv());
        if (!sees(b, page)) continue;
        any = true;
        if (turned && order.is_cold(page)) turn(b, worker);
        float scores[kBlockRows * kPageSlots];
        attend(b, head, page, {b.m, b.s, b.acc, 1}, scores, worker);
        for (int32_t r = 0; r < b.n_rows; ++r) {
          const size_t from = at(head, row + r);
          if (!(workspace.query_s[from] > 0)) continue;
          float of_head[kPageSlots];
          float* sum = mass[(row + r) / q_per_kv() - first];
          if (most) std::fill_n(of_head, n_slots, 0.0F);
          kernels.add_mass(scores + ptrdiff_t{r} * kPageSlots, n_slots, workspace.query_m[from],
                           workspace.query_s[from], weight, most ? of_head : sum);
          for (int32_t i = 0; most && i < n_slots; ++i) sum[i] = std::max(sum[i], of_head[i]);
        }
      }
    }
    return any;
  }
};

}  // namespace

void add_query_mass(const LayerCache& rows, const AttentionShape& shape, const MassQueries& queries,
                    HeadReduction heads, float weight, const KvKernels& kernels,
                    ParallelFor& parallel, AttentionWorkspace& workspace, std::span<float> mass,
                    int32_t stride) {
  const LayerGeometry& g = rows.rows().geometry();
  const int32_t n_slots = rows.n_slots();
  const auto n_queries = static_cast<int32_t>(queries.positions.size());
  assert(mass.size() == z(n_slots) * z(stride) && shape.n_heads % g.n_kv_heads == 0);
  if (n_queries == 0 || n_slots == 0) return;
  workspace.slopes.resize(z(shape.n_heads));
  alibi_slopes(shape.max_bias, workspace.slopes);
  const size_t n_rows = z(n_queries) * z(shape.n_heads);
  make_room(workspace.query_m, n_rows);
  make_room(workspace.query_s, n_rows);
  const ReadOrder order = rows.read_order();
  std::span<const int32_t> positions = rows.positions();
  if (!order.is_identity()) {
    make_room(workspace.places, z(order.n_places()));
    const auto places = std::span(workspace.places).first(z(order.n_places()));
    order.to_places(positions, std::numeric_limits<int32_t>::max(), places);
    positions = places;
  }
  workspace.reserve_workers(parallel.n_workers(), 1, g.head_dim_k, 1);
  const bool turned = order.n_cold > 0 && attention::turns(rows);
  const Observer observer{rows, shape, queries, kernels, workspace, order, positions, turned};
  const int32_t head_rows = n_queries * observer.q_per_kv();
  const int32_t n_blocks = (head_rows + kBlockRows - 1) / kBlockRows;
  parallel.run(int64_t{g.n_kv_heads} * n_blocks, [&](int64_t item, int32_t worker) {
    observer.normalise(static_cast<int32_t>(item / n_blocks),
                       static_cast<int32_t>(item % n_blocks) * kBlockRows,
                       workspace.workers[z(worker)]);
  });
  parallel.run(observer.n_pages(), [&](int64_t item, int32_t worker) {
    const auto page = static_cast<int32_t>(item);
    const int32_t n = order.slots_in(page);
    float of_query[kBlockQueries][kPageSlots];
    for (int32_t first = 0; first < n_queries; first += kBlockQueries) {
      const int32_t end = std::min(n_queries, first + kBlockQueries);
      if (!observer.page_mass(page, first, end, heads, of_query, workspace.workers[z(worker)])) {
        continue;
      }
      for (int32_t q = 0; q < end - first; ++q) {
        for (int32_t i = 0; i < n; ++i) {
          mass[z(order.slot_at(page, i)) * z(stride)] += weight * of_query[q][i];
        }
      }
    }
  });
}

void observed_mass(LayerCache& rows, const AttentionShape& shape, HeadReduction heads,
                   const KvKernels& kernels, ParallelFor& parallel, AttentionWorkspace& workspace,
                   std::span<float> mass) {
  std::fill(mass.begin(), mass.end(), 0.0F);
  const QueryRing& ring = rows.ring();
  if (ring.size() == 0) return;
  const ptrdiff_t width = ptrdiff_t{shape.n_heads} * rows.rows().geometry().head_dim_k;
  const auto add = [&](int32_t first, int32_t end) {  // the oldest queries first
    const MassQueries queries{ring.row(first), width, rows.rows().geometry().head_dim_k,
                              ring.positions().subspan(z(first), z(end - first))};
    add_query_mass(rows, shape, queries, heads, 1.0F / static_cast<float>(ring.size()), kernels,
                   parallel, workspace, mass, 1);
  };
  add(ring.oldest(), ring.size());
  add(0, ring.oldest());
}

}  // namespace kvasir
