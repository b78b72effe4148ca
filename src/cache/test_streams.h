// Some layers of some streams for tests of what a step reads: made-up texts that are read in a
// prompt and then decoded token by token, all streams at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "cache/cache.h"
#include "cache/test_rows.h"

namespace kvasir::testing {

struct Shape {
  const char* name;
  int32_t n_heads, n_kv_heads, head_dim;
};

// Some layers of some streams, each with its own text; tokens lie in cells of the same numbers.
class Streams {
 public:
  Streams(const Shape& shape, const CacheOptions& options, std::vector<int32_t> lengths,
          int32_t n_layers, ParallelFor& parallel)
      : shape_(shape),
        geometry_{shape.n_kv_heads, shape.head_dim, shape.head_dim},
        n_layers_(n_layers),
        parallel_(parallel),
        seen_(lengths.size(), 0) {
    CacheConfig config;
    config.n_streams = static_cast<int32_t>(lengths.size());
    config.n_cells = kCells;
    config.options = options;
    auto made = Cache::create(config, best_kernels());
    EXPECT_TRUE(made) << made.error();
    cache_ = std::move(made.value());
    for (int32_t l = 0; l < n_layers; ++l) EXPECT_TRUE(cache_->set_geometry(l, geometry_));
    for (int32_t l = 0; l < n_layers; ++l) {
      for (size_t s = 0; s < lengths.size(); ++s) {
        rows_.push_back(Sequence::random(
            geometry_, kCells, static_cast<uint32_t>(50 + 10 * l) + static_cast<uint32_t>(s)));
      }
    }
    queries_ = Sequence::random({shape.n_heads, shape.head_dim, 1}, kCells, 3).k;
    out_.resize(z(n_layers) * lengths.size() * z(width()));
    for (size_t s = 0; s < lengths.size(); ++s) {
      read(static_cast<int32_t>(s), lengths[s]);
      end(static_cast<int32_t>(s), false);
    }
  }

  Cache& cache() { return *cache_; }
  int32_t width() const { return shape_.n_heads * shape_.head_dim; }
  Sequence& rows(int32_t layer, int32_t stream) {
    return rows_[z(layer) * seen_.size() + z(stream)];
  }
  int32_t n_seen(int32_t stream) const { return seen_[z(stream)]; }
  const float* out(int32_t layer, int32_t stream) const {
    return out_.data() + (z(layer) * seen_.size() + z(stream)) * z(width());
  }
  std::vector<float> outs() const { return out_; }
  const float* query(int32_t layer, int32_t token) const {
    return queries_.data() + ptrdiff_t{(token * 3 + layer * 31) % kCells} * width();
  }

  // A prompt of n tokens, of one stream.
  void read(int32_t stream, int32_t n) {
    std::vector<float> out(z(n) * z(width()));
    std::vector<float> q;
    ++epoch_;
    for (int32_t l = 0; l < n_layers_; ++l) {
      append(l, stream, n);
      q.clear();
      for (int32_t t = 0; t < n; ++t) {
        const float* of = query(l, seen_[z(stream)] + t);
        q.insert(q.end(), of, of + width());
      }
      AttendArgs args = args_of(l, stream, 1, n);
      args.q = q.data();
      args.out = out.data();
      const auto done = cache_->attend(args, parallel_);
      ASSERT_TRUE(done) << done.error();
    }
    prompt_out_ = out;
    seen_[z(stream)] += n;
  }
  /// The newest tokens of a stream are forgotten: those that come next have their positions.
  void rewind(int32_t stream, int32_t n) { seen_[z(stream)] -= n; }
  /// Stream `to` becomes a copy of stream `from`.
  void copy(int32_t from, int32_t to) {
    for (int32_t l = 0; l < n_layers_; ++l) {
      ASSERT_TRUE(cache_->copy_layer(l, from, to));
      rows(l, to) = rows(l, from);
    }
    seen_[z(to)] = seen_[z(from)];
  }
  const std::vector<float>& prompt_out() const { return prompt_out_; }

  // One token of every stream, in one call a layer.
  void decode() {
    const auto n = static_cast<int32_t>(seen_.size());
    ++epoch_;
    std::vector<float> q;
    for (int32_t l = 0; l < n_layers_; ++l) {
      q.clear();
      for (int32_t s = 0; s < n; ++s) {
        append(l, s, 1);
        const float* of = query(l, seen_[z(s)]);
        q.insert(q.end(), of, of + width());
      }
      AttendArgs args = args_of(l, 0, n, 1);
      args.q = q.data();
      args.q_stream = args.out_stream = width();
      args.out = out_.data() + z(l) * z(n) * z(width());
      const auto done = cache_->attend(args, parallel_);
      ASSERT_TRUE(done) << done.error();
    }
    for (int32_t& seen : seen_) ++seen;
  }

  void end(int32_t stream, bool decoded) {
    StepState state;
    state.decoded = decoded;
    StepRecord record;
    cache_->end_step(stream, state, parallel_, record);
  }

  // The worst difference of the last decode step from attention in double over `tokens`.
  double error(int32_t layer, int32_t stream, const std::vector<int32_t>& tokens) {
    const int32_t group = shape_.n_heads / shape_.n_kv_heads;
    const std::vector<double> bias(tokens.size(), 0.0);
    double worst = 0;
    for (int32_t h = 0; h < shape_.n_heads; ++h) {
      const float* q = query(layer, seen_[z(stream)] - 1) + ptrdiff_t{h} * shape_.head_dim;
      const auto plain =
          plain_attention(rows(layer, stream), tokens, bias, h / group, q, scale(), 0, kNoSink);
      for (int32_t d = 0; d < shape_.head_dim; ++d) {
        const float found = out(layer, stream)[h * shape_.head_dim + d];
        const double difference = std::abs(found - plain.out[z(d)]);
        worst = std::isnan(found) ? 1e9 : std::max(worst, difference);
      }
    }
    return worst;
  }

  double scale() const { return 1 / std::sqrt(double(shape_.head_dim)); }
  double score(int32_t layer, int32_t stream, int32_t head, int32_t token) {
    const float* q = query(layer, seen_[z(stream)] - 1) + ptrdiff_t{head} * shape_.head_dim;
    const float* k = rows(layer, stream).k_row(token) +
                     ptrdiff_t{head / (shape_.n_heads / shape_.n_kv_heads)} * shape_.head_dim;
    double dot = 0;
    for (int32_t d = 0; d < shape_.head_dim; ++d) dot += double{q[d]} * k[d];
    return dot * scale();
  }

 private:
  static size_t z(int64_t n) { return static_cast<size_t>(n); }
  static constexpr int32_t kCells = 1024;

  void append(int32_t layer, int32_t stream, int32_t n) {
    tokens_.resize(z(n));
    std::iota(tokens_.begin(), tokens_.end(), seen_[z(stream)]);
    const Sequence& s = rows(layer, stream);
    const TokenSpan span{tokens_, tokens_};
    const int32_t first = seen_[z(stream)];
    ASSERT_TRUE(cache_->append_k(layer, stream, span, {s.k_row(first), geometry_.width_k(), n}));
    ASSERT_TRUE(cache_->append_v(layer, stream, span, {s.v_row(first), geometry_.width_v(), n}));
  }

  AttendArgs args_of(int32_t layer, int32_t first_stream, int32_t n_streams, int32_t n) {
    mask_.assign(z(n_streams) * z(n) * z(kCells), kF16MinusInf);
    positions_.clear();
    for (int32_t s = 0; s < n_streams; ++s) {
      for (int32_t t = 0; t < n; ++t) {
        const int32_t token = seen_[z(first_stream + s)] + t;
        std::fill_n(mask_.begin() + (ptrdiff_t{s} * n + t) * kCells, token + 1, uint16_t{0});
        positions_.push_back(token);
      }
    }
    AttendArgs args;
    args.layer = layer;
    args.first_stream = first_stream;
    args.n_streams = n_streams;
    args.n_queries = n;
    args.n_heads = shape_.n_heads;
    args.mask = mask_.data();
    args.mask_stream = ptrdiff_t{n} * kCells;
    args.mask_query = kCells;
    args.n_cells = kCells;
    args.scale = static_cast<float>(scale());
    args.q_query = args.out_query = width();
    args.q_head = args.out_head = shape_.head_dim;
    args.positions = positions_;
    args.epoch = epoch_;
    return args;
  }

  Shape shape_;
  LayerGeometry geometry_;
  int32_t n_layers_;
  ParallelFor& parallel_;
  std::unique_ptr<Cache> cache_;
  std::vector<Sequence> rows_;  // [n_layers, n_streams]
  std::vector<float> queries_, out_, prompt_out_;
  std::vector<int32_t> seen_, tokens_, positions_;
  std::vector<uint16_t> mask_;
  int64_t epoch_ = 0;
};

}  // namespace kvasir::testing
