#include "select/key_sketch.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr float kBestStep = 0.9957F;   // of four levels, in deviations of a normal value
constexpr float kMostHalf = 65504.0F;  // the largest binary16
constexpr int32_t kPairs = 16;         // of levels of two channels
constexpr int32_t kTableBytes = 2 * kPairs;
constexpr int32_t kPerItem = 4096;  // tokens of one item of work
constexpr int32_t kMostRows = 16;   // query rows of one kernel call

size_t z(int64_t n) { return static_cast<size_t>(n); }

// A key that can be sketched: NaN counts as 0.
float admitted(float x) { return std::isnan(x) ? 0.0F : std::clamp(x, -kMostHalf, kMostHalf); }

// The nearest integer, ties to even. Requires: |x| < 2^22.
float nearest(float x) {
  constexpr float kShift = 0x1.8p23F;  // its step is 1: the addition rounds
  return x + kShift - kShift;
}

// The code of -3, -1, 1 or 3 half steps, 0 to 3.
int32_t level_of(float x, float step) {
  return static_cast<int32_t>(x >= -step) + static_cast<int32_t>(x >= 0) +
         static_cast<int32_t>(x >= step);
}

// Codes of four channels a byte, each kPageSlots behind the one before. Requires: zeros behind dim.
void pack_levels(const float* key, int32_t dim, float step, uint8_t* codes) {
  for (int32_t d = 0; d < dim; d += 4, codes += kPageSlots) {
    *codes =
        static_cast<uint8_t>(level_of(key[d], step) | level_of(key[d + 1], step) << 2 |
                             level_of(key[d + 2], step) << 4 | level_of(key[d + 3], step) << 6);
  }
}

// Of each two channels what their 16 pairs of levels add, in steps above the least.
void fill_tables(const float* q, int32_t dim, float step, uint8_t* table) {
  const float per_step = step >= std::numeric_limits<float>::min() ? 1 / step : 0.0F;
  for (int32_t d = 0; d < dim; d += 2, table += kPairs) {
    const float least = -1.5F * (std::abs(q[d]) + std::abs(q[d + 1]));
    for (int32_t i = 0; i < kPairs; ++i) {
      const int32_t low = i % 4, high = i / 4;
      const float value =
          q[d] * (static_cast<float>(low) - 1.5F) + q[d + 1] * (static_cast<float>(high) - 1.5F);
      table[i] =
          static_cast<uint8_t>(std::clamp(nearest((value - least) * per_step), 0.0F, 127.0F));
    }
  }
}

template <typename T>
void make_at_least(std::vector<T>& values, size_t n) {
  if (values.size() < n) values.resize(n + n / 8);
}

}  // namespace

// What one call of score() knows.
struct KeySketch::Scoring {
  const KvKernels& kernels;
  int32_t n_heads, n_items;
  SketchQuery* queries;  // [n_heads]
  ScoreSums* sums;       // [n_chunks, n_heads]
  float* logits;         // [n_heads, n_items]
  float* norms;          // [n_heads] ln Z; NaN: q is not finite, the head has no say
};

size_t KeySketch::head_bytes(int32_t head_dim) const {
  return z(kChunkItems) * (z(n_code_bytes(head_dim)) + sizeof(uint16_t));
}

uint16_t* KeySketch::steps_at(int32_t item, int32_t head) {
  return reinterpret_cast<uint16_t*>(at(item, head) + z(n_code_bytes(head_dim())) * kChunkItems);
}

void KeySketch::settle(int32_t head, const float* keys, int32_t n) {
  means_.resize(z(n_kv_heads()) * z(head_dim()));
  for (int32_t d = 0; d < head_dim(); ++d) {
    double sum = 0;
    for (int32_t i = 0; i < n; ++i) sum += double{admitted(keys[ptrdiff_t{i} * head_dim() + d])};
    means_[z(head) * z(head_dim()) + z(d)] = static_cast<float>(sum / n);
  }
}

void KeySketch::set(int32_t item, int32_t n, int32_t head, const float* keys,
                    const KvKernels& kernels) {
  assert(item + n <= n_items() && !means_.empty());
  const int32_t dim = head_dim();
  const float* mean = means_.data() + ptrdiff_t{head} * dim;
  std::array<float, kMostDim + 3> key;
  for (int32_t end = item + n; item < end; ++item, keys += dim) {
    double sum = 0;
    for (int32_t d = 0; d < dim; ++d) key[z(d)] = admitted(keys[d]) - mean[d];
    kernels.turn_row(key.data(), dim);
    for (int32_t d = 0; d < dim; ++d) sum += double{key[z(d)]} * double{key[z(d)]};
    std::fill_n(key.begin() + dim, 3, 0.0F);
    const auto deviation = static_cast<float>(std::sqrt(sum / dim));
    const uint16_t step = float_to_half(std::min(kBestStep * deviation, kMostHalf));
    const int32_t slot = item % kChunkItems;
    steps_at(item, head)[slot] = step;
    pack_levels(key.data(), dim, half_to_float(step),
                reinterpret_cast<uint8_t*>(at(item, head)) + slot);
  }
}

// All tables of a head share a step.
void KeySketch::make_tables(const KeyQueries& queries, const KvKernels& kernels, Scoring& s) const {
  const int32_t n_bytes = n_code_bytes(head_dim());
  std::array<float, kMostDim + 3> q;
  for (int32_t h = 0; h < s.n_heads; ++h) {
    std::copy_n(queries.q + h * queries.q_head, head_dim(), q.begin());
    kernels.turn_row(q.data(), head_dim());
    std::fill_n(q.begin() + head_dim(), 3, 0.0F);
    float most = 0, sum = 0;
    for (int32_t d = 0; d < 4 * n_bytes; d += 2) {
      const float reach = std::abs(q[z(d)]) + std::abs(q[z(d + 1)]);
      most = std::max(most, reach);
      sum += reach;
    }
    SketchQuery& query = s.queries[h];
    s.norms[h] = 0;
    if (!std::isfinite(sum * 3 * kMostHalf * queries.scale)) {
      s.norms[h] = std::numeric_limits<float>::quiet_NaN();
      q.fill(0);
      most = sum = 0;
    }
    query.step = 3 * most / 127;
    query.offset = -1.5F * sum * queries.scale;
    fill_tables(q.data(), 4 * n_bytes, query.step, const_cast<uint8_t*>(query.tables));
    query.step *= queries.scale;
  }
}

void KeySketch::score_chunk(const Scoring& s, int32_t chunk) const {
  const int32_t first = chunk * kChunkItems;
  const int32_t q_per_kv = s.n_heads / n_kv_heads();
  ScoreSums* sums = s.sums + ptrdiff_t{chunk} * s.n_heads;
  std::array<float*, kMostRows> rows;
  SketchArgs args{};
  args.n_bytes = n_code_bytes(head_dim());
  args.n_slots = std::min(kChunkItems, s.n_items - first);
  args.scores = rows.data();
  for (int32_t h = 0; h < s.n_heads; h += args.n_rows) {
    const int32_t kv_head = h / q_per_kv;
    const std::byte* codes = at(first, kv_head);
    args.codes = reinterpret_cast<const uint8_t*>(codes);
    args.steps = reinterpret_cast<const uint16_t*>(codes + z(args.n_bytes) * kChunkItems);
    args.queries = s.queries + h;
    args.n_rows = std::min(kMostRows, (kv_head + 1) * q_per_kv - h);
    for (int32_t r = 0; r < args.n_rows; ++r) {
      rows[z(r)] = s.logits + ptrdiff_t{h + r} * s.n_items + first;
    }
    s.kernels.score_sketch(args, sums + h);
  }
}

float KeySketch::log_sum(const Scoring& s, int32_t head, int32_t n_chunks) {
  float most = kMinusInf;
  for (int32_t c = 0; c < n_chunks; ++c) {
    most = std::max(most, s.sums[ptrdiff_t{c} * s.n_heads + head].most);
  }
  double sum = 0;
  for (int32_t c = 0; c < n_chunks; ++c) {
    const ScoreSums& of = s.sums[ptrdiff_t{c} * s.n_heads + head];
    sum += double{of.sum} * std::exp(double{of.most} - double{most});
  }
  return most + static_cast<float>(std::log(sum));
}

void KeySketch::take_best(const Scoring& s, int32_t first, int32_t end, float* scores) const {
  std::fill(scores + first, scores + end, kMinusInf);
  for (int32_t h = 0; h < s.n_heads; ++h) {
    const float norm = s.norms[h];
    if (std::isnan(norm)) continue;
    const float* logits = s.logits + ptrdiff_t{h} * s.n_items;
    for (int32_t i = first; i < end; ++i) scores[i] = std::max(scores[i], logits[i] - norm);
  }
}

void KeySketch::score(const KeyQueries& queries, const KvKernels& kernels, ParallelFor& parallel,
                      IndexScratch& scratch, std::span<float> scores) const {
  assert(scores.size() == z(n_items()));
  Scoring s{kernels, queries.n_heads, n_items(), nullptr, nullptr, nullptr, nullptr};
  const int32_t n_chunks = (s.n_items + kChunkItems - 1) / kChunkItems;
  const size_t of_head = z(n_code_bytes(head_dim())) * kTableBytes;
  make_at_least(scratch.tables, z(s.n_heads) * of_head);
  make_at_least(scratch.queries, z(s.n_heads));
  make_at_least(scratch.logits, z(s.n_heads) * z(s.n_items));
  make_at_least(scratch.rows, z(s.n_heads));
  make_at_least(scratch.sums, z(s.n_heads) * z(n_chunks));
  s.queries = scratch.rows.data();
  s.sums = scratch.sums.data();
  s.logits = scratch.logits.data();
  s.norms = scratch.queries.data();
  for (int32_t h = 0; h < s.n_heads; ++h) {
    s.queries[h].tables = scratch.tables.data() + z(h) * of_head;
  }
  make_tables(queries, kernels, s);
  parallel.run(n_chunks, [&](int64_t chunk, int32_t /*worker*/) {
    score_chunk(s, static_cast<int32_t>(chunk));
  });
  for (int32_t h = 0; h < s.n_heads; ++h) {
    if (!std::isnan(s.norms[h])) s.norms[h] = log_sum(s, h, n_chunks);
  }
  parallel.run((s.n_items + kPerItem - 1) / kPerItem, [&](int64_t item, int32_t /*worker*/) {
    const auto first = static_cast<int32_t>(item) * kPerItem;
    take_best(s, first, std::min(s.n_items, first + kPerItem), scores.data());
  });
}

int64_t KeySketch::most_scratch(int64_t n_items, int64_t n_heads, int64_t head_dim) const {
  const int64_t n_chunks = n_items / kChunkItems + 1;
  const int64_t logits = n_heads * n_items * int64_t{sizeof(float)};
  const int64_t sums = n_heads * n_chunks * int64_t{sizeof(ScoreSums)};
  const int64_t tables =
      n_heads * (n_code_bytes(static_cast<int32_t>(head_dim)) * int64_t{kTableBytes} +
                 int64_t{sizeof(SketchQuery) + sizeof(float)});
  return (logits + sums + tables) * 9 / 8;
}

size_t KeySketch::bytes() const {
  return sizeof(*this) + stored_bytes() + means_.capacity() * sizeof(float);
}

void KeySketch::clear() {
  std::vector<float>().swap(means_);
  KeyIndex::clear();
}

}  // namespace kvasir
