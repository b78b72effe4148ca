// The cache's attention against plain attention in double, over geometries, placements and chunks.
#include <gtest/gtest.h>

#include <numeric>

#include "cache/cache.h"
#include "cache/test_rows.h"

namespace kvasir {
namespace {

using testing::kNoSink;
using testing::plain_attention;
using testing::PlainAttention;
using testing::Sequence;
using testing::ThreadFor;

struct Case {
  const char* name;
  LayerGeometry geometry;
  int32_t n_heads;
  float soft_cap = 0;
  float max_bias = 0;
  bool sinks = false;
};

const Case kCases[] = {
    {"mha", {4, 32, 32}, 4},
    {"gqa3", {3, 64, 64}, 9},
    {"gqa4", {2, 80, 80}, 8},
    {"gqa7", {2, 96, 96}, 14},
    {"gqa8_wide", {1, 256, 128}, 8},
    {"mqa", {1, 100, 100}, 5},
    {"mqa_many_heads", {1, 16, 16}, 71},
    {"soft_cap", {2, 64, 64}, 4, 30.0F},
    {"alibi", {2, 64, 64}, 6, 0, 8.0F},
    {"learned_sinks", {2, 64, 64}, 4, 0, 0, true},
};

// Feeds one sequence in chunks and checks every query.
class Feeder {
 public:
  Feeder(const Case& c, const CacheOptions& options, int32_t n_tokens, ParallelFor& parallel)
      : case_(c), sequence_(Sequence::random(c.geometry, n_tokens, 11)), parallel_(parallel) {
    CacheConfig config;
    config.n_cells = (n_tokens + 255) / 256 * 256;
    config.options = options;
    cache_ = std::move(Cache::create(config, best_kernels()).value());
    EXPECT_TRUE(cache_->set_geometry(0, c.geometry));
    std::mt19937 generator(13);
    std::normal_distribution<float> normal;
    q_.resize(static_cast<size_t>(n_tokens) *
              static_cast<size_t>(c.n_heads * c.geometry.head_dim_k));
    for (float& x : q_) x = normal(generator);
    if (c.sinks) {
      for (int32_t h = 0; h < c.n_heads; ++h)
        sink_logits_.push_back(0.5F * static_cast<float>(h) - 1);
    }
  }

  Cache& cache() { return *cache_; }
  const Sequence& sequence() const { return sequence_; }
  const std::vector<float>& out() const { return out_; }
  const float* query(int32_t token, int32_t head) const {
    return q_.data() + (ptrdiff_t{token} * case_.n_heads + head) * case_.geometry.head_dim_k;
  }
  double bias(int32_t query, int32_t token, int32_t head) const {
    if (token > query) return -std::numeric_limits<double>::infinity();
    std::vector<float> slopes(static_cast<size_t>(case_.n_heads));
    alibi_slopes(case_.max_bias, slopes);
    return case_.max_bias > 0 ? -double{slopes[static_cast<size_t>(head)]} * (query - token) : 0;
  }
  std::vector<double> biases_of(int32_t query, const std::vector<int32_t>& tokens,
                                int32_t head) const {
    std::vector<double> biases(tokens.size());
    std::transform(tokens.begin(), tokens.end(), biases.begin(),
                   [&](int32_t token) { return bias(query, token, head); });
    return biases;
  }
  double scale() const { return 1 / std::sqrt(double(case_.geometry.head_dim_k)); }
  double sink(int32_t head) const {
    return sink_logits_.empty() ? kNoSink : double{sink_logits_[static_cast<size_t>(head)]};
  }

  void feed(int32_t first, int32_t n) {
    std::vector<int32_t> cells, positions;
    for (int32_t i = 0; i < n; ++i) {
      cells.push_back(first + i);
      positions.push_back(first + i);
    }
    const LayerGeometry& g = case_.geometry;
    ASSERT_TRUE(
        cache_->append_k(0, 0, {cells, positions}, {sequence_.k_row(first), g.width_k(), n}));
    ASSERT_TRUE(
        cache_->append_v(0, 0, {cells, positions}, {sequence_.v_row(first), g.width_v(), n}));
    const int32_t n_cells = std::min(cache_->config().n_cells, (first + n + 255) / 256 * 256);
    std::vector<uint16_t> mask;
    for (int32_t t = 0; t < n; ++t) {
      for (int32_t c = 0; c < n_cells; ++c) {
        const int32_t distance = first + t - c;
        mask.push_back(distance < 0 ? kF16MinusInf
                                    : float_to_half(case_.max_bias > 0 ? -float(distance) : 0.0F));
      }
    }
    AttendArgs args;
    args.n_queries = n;
    args.n_heads = case_.n_heads;
    args.q = query(first, 0);
    args.q_query = ptrdiff_t{case_.n_heads} * g.head_dim_k;
    args.q_head = g.head_dim_k;
    args.mask = mask.data();
    args.mask_query = n_cells;
    args.n_cells = n_cells;
    args.scale = static_cast<float>(scale());
    args.soft_cap = case_.soft_cap;
    args.max_bias = case_.max_bias;
    args.sinks = sink_logits_.empty() ? nullptr : sink_logits_.data();
    out_.assign(static_cast<size_t>(ptrdiff_t{n} * case_.n_heads * g.head_dim_v), -7.0F);
    args.out = out_.data();
    args.out_query = ptrdiff_t{case_.n_heads} * g.head_dim_v;
    args.out_head = g.head_dim_v;
    args.positions = positions;
    args.epoch = ++epoch_;
    ASSERT_TRUE(cache_->attend(args, parallel_));
  }

  // Compares the last feed() with plain attention over `tokens`.
  void check(int32_t first, int32_t n, const std::vector<int32_t>& tokens) const {
    const int32_t group = case_.n_heads / case_.geometry.n_kv_heads;
    double worst = 0;
    for (int32_t t = 0; t < n; ++t) {
      for (int32_t h = 0; h < case_.n_heads; ++h) {
        const std::vector<double> biases = biases_of(first + t, tokens, h);
        const PlainAttention expected =
            plain_attention(sequence_, tokens, biases, h / group, query(first + t, h), scale(),
                            case_.soft_cap, sink(h));
        const float* out =
            out_.data() + (ptrdiff_t{t} * case_.n_heads + h) * case_.geometry.head_dim_v;
        for (int32_t d = 0; d < case_.geometry.head_dim_v; ++d) {
          worst = std::max(worst, std::abs(out[d] - expected.out[static_cast<size_t>(d)]));
        }
      }
    }
    // f32 sums of n products of unit normals: a few eps of their norm.
    EXPECT_LT(worst, 2e-5) << case_.name << " first " << first << " n " << n;
  }

 private:
  Case case_;
  Sequence sequence_;
  ParallelFor& parallel_;
  std::unique_ptr<Cache> cache_;
  std::vector<float> q_, out_, sink_logits_;
  int64_t epoch_ = 0;
};

std::vector<int32_t> up_to(int32_t n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

CacheOptions options_of(const std::string& policy, int32_t budget) {
  CacheOptions options;
  options.policy = policy;
  if (policy != "none") options.params.budget = budget;
  return options;
}

class AttentionOf : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionOf, EveryChunkSizeEqualsPlainAttention) {
  SerialFor serial;
  for (const char* policy : {"none", "window"}) {
    for (const int32_t chunk : {1, 7, 64, 150}) {
      Feeder feeder(GetParam(), options_of(policy, 4096), 150, serial);
      for (int32_t first = 0; first < 150; first += chunk) {
        const int32_t n = std::min(chunk, 150 - first);
        feeder.feed(first, n);
        if (first + n == 150 || first % 35 == 0) feeder.check(first, n, up_to(150));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, AttentionOf, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Attention, DoesNotDependOnThreads) {
  SerialFor serial;
  ThreadFor threads(3);
  for (const int32_t chunk : {1, 40}) {
    Feeder one(kCases[1], options_of("none", 0), 2000, serial);
    Feeder three(kCases[1], options_of("none", 0), 2000, threads);
    one.feed(0, 1900);
    three.feed(0, 1900);
    EXPECT_EQ(one.out(), three.out());
    one.feed(1900, chunk);
    three.feed(1900, chunk);
    EXPECT_EQ(one.out(), three.out());
    three.check(1900, chunk, up_to(1900 + chunk));  // splits are merged here
  }
}

TEST(Attention, BudgetAboveTheContextIsBitIdenticalToNone) {
  SerialFor serial;
  for (const char* policy : {"window", "conf"}) {
    CacheOptions options = options_of(policy, 4096);
    options.params.high = 0;
    Feeder none(kCases[1], options_of("none", 0), 400, serial);
    Feeder kept(kCases[1], options, 400, serial);
    for (int32_t first = 0; first < 400; first += first < 320 ? 80 : 1) {
      const int32_t n = first < 320 ? 80 : 1;
      none.feed(first, n);
      kept.feed(first, n);
      ASSERT_EQ(none.out(), kept.out()) << policy << " at " << first;
      Confidence confidence;
      confidence.c = 0.5;
      confidence.valid = true;
      StepRecord record;
      kept.cache().end_step(0, {true, &confidence}, serial, record);
      EXPECT_EQ(record.evicted, 0);
    }
  }
}

TEST(Attention, StepMassIsTheMeanProbabilityOverHeads) {
  SerialFor serial;
  for (const Case& c : {kCases[1], kCases[9]}) {
    CacheOptions options = options_of("conf", 4096);
    options.params.lambda = 0;  // the state is then the last mass itself
    Feeder feeder(c, options, 300, serial);
    for (const bool prompt : {true, false}) {
      const int32_t first = prompt ? 0 : 280;
      const int32_t n = prompt ? 280 : 1;
      feeder.feed(first, n);
      StepRecord record;
      Confidence confidence;
      feeder.cache().end_step(0, {true, &confidence}, serial, record);
      // A prompt is observed by its last 32 queries, a decode step by its own.
      const int32_t n_observed = prompt ? 32 : 1;
      std::vector<double> expected(static_cast<size_t>(first + n), 0.0);
      const int32_t group = c.n_heads / c.geometry.n_kv_heads;
      for (int32_t query = first + n - n_observed; query < first + n; ++query) {
        for (int32_t h = 0; h < c.n_heads; ++h) {
          const std::vector<double> biases = feeder.biases_of(query, up_to(first + n), h);
          const PlainAttention plain =
              plain_attention(feeder.sequence(), up_to(first + n), biases, h / group,
                              feeder.query(query, h), feeder.scale(), 0, feeder.sink(h));
          for (size_t t = 0; t < expected.size(); ++t) {
            expected[t] += plain.mass[t] / (n_observed * c.n_heads);
          }
        }
      }
      const auto state = feeder.cache().find(0, 0)->state();
      ASSERT_EQ(state.size(), expected.size());
      for (size_t t = 0; t < expected.size(); ++t) {
        ASSERT_NEAR(state[t], expected[t], 1e-6)
            << c.name << " token " << t << " prompt " << prompt;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir
