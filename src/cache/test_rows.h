// Rows, queries and plain attention for tests of the cache: everything in double, nothing clever.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "format/f16_page.h"
#include "kernels/half.h"

namespace kvasir::testing {

/// Threads of the standard library, so that TSan sees what runs at once.
class ThreadFor final : public ParallelFor {
 public:
  explicit ThreadFor(int32_t n) : n_(n) {}
  int32_t n_workers() const override { return n_; }
  void run(int64_t n_items, ItemFunction f) override {
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(n_));
    for (int32_t w = 0; w < n_; ++w) {
      threads.emplace_back([=, this] {
        for (int64_t i = w; i < n_items; i += n_) f(i, w);
      });
    }
    for (std::thread& t : threads) t.join();
  }

 private:
  int32_t n_;
};

/// Rows of one sequence: K and V of every position, as the cache stores them (rounded to f16).
struct Sequence {
  LayerGeometry geometry;
  std::vector<float> k, v;  // [n_tokens, n_kv_heads, head_dim]

  static Sequence random(const LayerGeometry& geometry, int32_t n_tokens, uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    Sequence s{geometry, {}, {}};
    const auto fill = [&](std::vector<float>& rows, int32_t width) {
      rows.resize(static_cast<size_t>(n_tokens) * static_cast<size_t>(width));
      for (float& x : rows) x = half_to_float(float_to_half(normal(generator)));
    };
    fill(s.k, geometry.width_k());
    fill(s.v, geometry.width_v());
    return s;
  }
  const float* k_row(int32_t token) const {
    return k.data() + ptrdiff_t{token} * geometry.width_k();
  }
  const float* v_row(int32_t token) const {
    return v.data() + ptrdiff_t{token} * geometry.width_v();
  }
};

/// Attention of one query head over some tokens of a sequence.
struct PlainAttention {
  std::vector<double> out;   // [head_dim_v]
  std::vector<double> mass;  // [tokens.size()] probabilities
};

inline PlainAttention plain_attention(const Sequence& s, const std::vector<int32_t>& tokens,
                                      const std::vector<double>& bias, int32_t kv_head,
                                      const float* q, double scale, double soft_cap, double sink) {
  const LayerGeometry& g = s.geometry;
  std::vector<double> scores;
  double m = sink;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const float* k = s.k_row(tokens[i]) + ptrdiff_t{kv_head} * g.head_dim_k;
    double dot = 0;
    for (int32_t d = 0; d < g.head_dim_k; ++d) dot += double{q[d]} * k[d];
    dot *= scale;
    if (soft_cap != 0) dot = soft_cap * std::tanh(dot / soft_cap);
    scores.push_back(dot + bias[i]);
    m = std::max(m, scores.back());
  }
  PlainAttention result{std::vector<double>(static_cast<size_t>(g.head_dim_v), 0.0), {}};
  double sum = std::isinf(sink) ? 0 : std::exp(sink - m);
  for (const double score : scores) sum += std::isinf(score) ? 0 : std::exp(score - m);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double p = std::isinf(scores[i]) ? 0 : std::exp(scores[i] - m) / sum;
    result.mass.push_back(p);
    const float* v = s.v_row(tokens[i]) + ptrdiff_t{kv_head} * g.head_dim_v;
    for (int32_t d = 0; d < g.head_dim_v; ++d) result.out[static_cast<size_t>(d)] += p * v[d];
  }
  return result;
}

constexpr double kNoSink = -std::numeric_limits<double>::infinity();

}  // namespace kvasir::testing
