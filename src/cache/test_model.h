// A tiny model for tests of the cache: some layers, random rows and queries, one stream, one prompt
// in chunks and then token by token.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "cache/cache.h"
#include "cache/test_rows.h"

namespace kvasir::testing {

struct TinyShape {
  int32_t n_heads = 4;
  int32_t n_kv_heads = 2;
  int32_t head_dim = 16;
  int32_t n_layers = 2;
};

/// Rows and queries of every layer; the same for equal shapes, so that caches can be compared.
class TinyModel {
 public:
  TinyModel(const TinyShape& shape, int32_t n_tokens)
      : shape_(shape), geometry_{shape.n_kv_heads, shape.head_dim, shape.head_dim} {
    std::mt19937 generator(11);
    // Scores of a spread that gives some tokens much of the attention.
    std::normal_distribution<float> normal(0, 1.5F);
    for (int32_t l = 0; l < shape.n_layers; ++l) {
      rows_.push_back(Sequence::random(geometry_, n_tokens, 100 + static_cast<uint32_t>(l)));
      std::vector<float>& q = queries_.emplace_back();
      q.resize(static_cast<size_t>(n_tokens) * static_cast<size_t>(width()));
      for (float& x : q) x = normal(generator);
    }
  }

  const TinyShape& shape() const { return shape_; }
  const LayerGeometry& geometry() const { return geometry_; }
  int32_t width() const { return shape_.n_heads * shape_.head_dim; }
  const Sequence& rows(int32_t layer) const { return rows_[static_cast<size_t>(layer)]; }
  const float* query(int32_t layer, int32_t token) const {
    return queries_[static_cast<size_t>(layer)].data() + ptrdiff_t{token} * width();
  }

 private:
  TinyShape shape_;
  LayerGeometry geometry_;
  std::vector<Sequence> rows_;
  std::vector<std::vector<float>> queries_;  // [n_layers][n_tokens, n_heads, head_dim]
};

/// One cache that reads the model's text.
class TinyRun {
 public:
  TinyRun(const TinyModel& model, const CacheOptions& options, ParallelFor& parallel)
      : model_(model), parallel_(parallel) {
    CacheConfig config;
    config.n_cells = 4096;
    config.options = options;
    Result<std::unique_ptr<Cache>> made = Cache::create(config, best_kernels());
    EXPECT_TRUE(made) << made.error();
    cache_ = std::move(made.value());
    for (int32_t l = 0; l < model.shape().n_layers; ++l) {
      EXPECT_TRUE(cache_->set_geometry(l, model.geometry()));
    }
  }

  Cache& cache() { return *cache_; }
  const Cache& cache() const { return *cache_; }
  const std::vector<float>& out() const { return out_; }  ///< of the last layer
  int32_t n_seen() const { return n_seen_; }

  /// Tokens [n_seen, n_seen + n) arrive and attend.
  void read(int32_t n) {
    prepare(n);
    for (int32_t l = 0; l < model_.shape().n_layers; ++l) read_layer(l, n);
    n_seen_ += n;
  }

  /// Ends the step; c < 0: a chunk of a prompt.
  StepRecord end(double c) {
    Confidence confidence;
    confidence.c = c;
    confidence.valid = true;
    StepRecord record;
    cache_->end_step(0, {c >= 0, c >= 0 ? &confidence : nullptr}, parallel_, record);
    return record;
  }

  std::vector<std::vector<int32_t>> live() const {
    std::vector<std::vector<int32_t>> layers;
    for (int32_t l = 0; l < model_.shape().n_layers; ++l) {
      layers.push_back(cache_->live_positions(0, l));
    }
    return layers;
  }

 private:
  void prepare(int32_t n) {
    tokens_.resize(static_cast<size_t>(n));
    std::iota(tokens_.begin(), tokens_.end(), n_seen_);
    n_cells_ = (n_seen_ + n + 255) / 256 * 256;
    mask_.assign(static_cast<size_t>(n) * static_cast<size_t>(n_cells_), kF16MinusInf);
    for (int32_t t = 0; t < n; ++t) {
      std::fill_n(mask_.begin() + ptrdiff_t{t} * n_cells_, n_seen_ + t + 1, uint16_t{0});
    }
    out_.resize(static_cast<size_t>(n) * static_cast<size_t>(model_.width()));
    ++epoch_;
  }

  void read_layer(int32_t l, int32_t n) {
    const Sequence& s = model_.rows(l);
    const int32_t width = model_.geometry().width_k();
    const TokenSpan span{tokens_, tokens_};
    ASSERT_TRUE(cache_->append_k(l, 0, span, {s.k_row(n_seen_), width, n}));
    ASSERT_TRUE(cache_->append_v(l, 0, span, {s.v_row(n_seen_), width, n}));
    AttendArgs args;
    args.layer = l;
    args.n_queries = n;
    args.n_heads = model_.shape().n_heads;
    args.q = model_.query(l, n_seen_);
    args.mask = mask_.data();
    args.mask_query = n_cells_;
    args.n_cells = n_cells_;
    args.scale = 1 / std::sqrt(static_cast<float>(model_.shape().head_dim));
    args.out = out_.data();
    args.q_query = args.out_query = model_.width();
    args.q_head = args.out_head = model_.shape().head_dim;
    args.positions = tokens_;
    args.epoch = epoch_;
    const Result<void> done = cache_->attend(args, parallel_);
    ASSERT_TRUE(done) << done.error();
  }

  const TinyModel& model_;
  ParallelFor& parallel_;
  std::unique_ptr<Cache> cache_;
  int32_t n_seen_ = 0, n_cells_ = 0;
  int64_t epoch_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<uint16_t> mask_;
  std::vector<float> out_;
};

}  // namespace kvasir::testing
