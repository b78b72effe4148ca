// What leaves and what stays: budgets, sinks, protection, removal, positions in the cache.
#include "cache/cache.h"

#include <gtest/gtest.h>

#include <climits>
#include <numeric>

#include "cache/test_rows.h"

namespace kvasir {
namespace {

using testing::Sequence;

constexpr LayerGeometry kGeometry{2, 16, 16};
constexpr int32_t kHeads = 4;
constexpr int32_t kLayers = 3;

CacheOptions options_of(const std::string& policy) {
  CacheOptions options;
  options.policy = policy;
  return options;
}

// A tiny model: some layers, one or two streams, random rows.
class TinyContext {
 public:
  explicit TinyContext(const CacheOptions& options, int32_t n_streams = 1, int32_t n_cells = 4096) {
    CacheConfig config;
    config.n_streams = n_streams;
    config.n_cells = n_cells;
    config.options = options;
    Result<std::unique_ptr<Cache>> made = Cache::create(config, best_kernels());
    EXPECT_TRUE(made) << made.error();
    cache_ = std::move(made.value());
    for (int32_t l = 0; l < kLayers; ++l) {
      EXPECT_TRUE(cache_->set_geometry(l, kGeometry));
      rows_.push_back(Sequence::random(kGeometry, n_cells, 100 + static_cast<uint32_t>(l)));
    }
  }

  Cache& cache() { return *cache_; }
  std::vector<float>& out() { return out_; }
  void set_rope(const RopeSpec& spec) {
    for (int32_t l = 0; l < kLayers; ++l) cache_->set_rope(l, spec);
  }
  const Sequence& rows(int32_t layer) const { return rows_[static_cast<size_t>(layer)]; }

  // Positions [first, first + n) of a stream arrive in cells of the same numbers.
  Result<void> step(int32_t stream, int32_t first, int32_t n,
                    const std::vector<int32_t>& removed_cells = {}) {
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    std::iota(tokens.begin(), tokens.end(), first);
    const int32_t n_cells = std::min(cache_->config().n_cells, (first + n + 255) / 256 * 256);
    std::vector<uint16_t> mask(static_cast<size_t>(n) * static_cast<size_t>(n_cells), kF16MinusInf);
    for (int32_t t = 0; t < n; ++t) {
      std::fill_n(mask.begin() + ptrdiff_t{t} * n_cells, first + t + 1, uint16_t{0});
      for (const int32_t cell : removed_cells) {
        mask[static_cast<size_t>(ptrdiff_t{t} * n_cells + cell)] = kF16MinusInf;
      }
    }
    AttendArgs args;
    args.first_stream = stream;
    args.n_queries = n;
    args.n_heads = kHeads;
    args.mask = mask.data();
    args.mask_query = n_cells;
    args.n_cells = n_cells;
    args.scale = 0.25F;
    args.positions = tokens;
    args.epoch = ++epoch_;
    const size_t width = static_cast<size_t>(kHeads) * static_cast<size_t>(kGeometry.head_dim_k);
    out_.resize(static_cast<size_t>(n) * width);
    for (int32_t l = 0; l < kLayers; ++l) {
      const Sequence& s = rows(l);
      Result<void> done =
          cache_->append_k(l, stream, {tokens, tokens}, {s.k_row(first), kGeometry.width_k(), n});
      if (!done) return done;
      done =
          cache_->append_v(l, stream, {tokens, tokens}, {s.v_row(first), kGeometry.width_v(), n});
      if (!done) return done;
      std::vector<float> q;
      for (int32_t t = 0; t < n; ++t) {
        for (int32_t h = 0; h < kHeads; ++h) {
          const float* k = s.k_row((first + t) * 7 % 900) + ptrdiff_t{h % 2} * kGeometry.head_dim_k;
          q.insert(q.end(), k, k + kGeometry.head_dim_k);
        }
      }
      args.layer = l;
      args.q = q.data();
      args.q_query = static_cast<ptrdiff_t>(width);
      args.q_head = kGeometry.head_dim_k;
      args.out = out_.data();
      args.out_query = static_cast<ptrdiff_t>(width);
      args.out_head = kGeometry.head_dim_v;
      done = cache_->attend(args, serial_);
      if (!done) return done;
    }
    return {};
  }

  StepRecord end(int32_t stream, double c, bool decoded = true) {
    Confidence confidence;
    confidence.c = c;
    confidence.valid = true;
    StepRecord record;
    record.stream = stream;
    cache_->end_step(stream, {decoded, decoded ? &confidence : nullptr}, serial_, record);
    return record;
  }

  std::vector<int32_t> positions(int32_t layer, int32_t stream = 0) const {
    const auto p = cache_->find(layer, stream)->positions();
    return {p.begin(), p.end()};
  }

 private:
  std::unique_ptr<Cache> cache_;
  std::vector<Sequence> rows_;
  std::vector<float> out_;
  SerialFor serial_;
  int64_t epoch_ = 0;
};

TEST(Cache, BudgetHoldsAndProtectedTokensStay) {
  CacheOptions options = options_of("conf");
  options.params.high = 48;
  options.params.low = 96;
  options.params.protect = 16;
  TinyContext context(options);
  ASSERT_TRUE(context.step(0, 0, 200));
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> uniform(0.15, 1.0);
  for (int32_t pos = 200; pos < 500; ++pos) {
    const double c = uniform(generator);
    const StepRecord record = context.end(0, c);
    EXPECT_EQ(record.budget, c >= 0.7 ? 48 : 96);
    EXPECT_LE(record.live_max, record.budget);
    for (int32_t l = 0; l < kLayers; ++l) {
      const std::vector<int32_t> live = context.positions(l);
      EXPECT_TRUE(std::is_sorted(live.begin(), live.end()));
      EXPECT_EQ(std::adjacent_find(live.begin(), live.end()), live.end());
      for (int32_t sink = 0; sink < 4; ++sink) EXPECT_EQ(live[static_cast<size_t>(sink)], sink);
      for (int32_t p = 0; p < 16; ++p) {
        EXPECT_EQ(live[live.size() - 1 - static_cast<size_t>(p)], pos - 1 - p);
      }
    }
    ASSERT_TRUE(context.step(0, pos, 1));
  }
}

TEST(Cache, ExactPrefillEvictsOnlyWithTheFirstOutput) {
  CacheOptions options = options_of("window");
  options.params.budget = 40;
  TinyContext exact(options);
  options.prefill = PrefillMode::kStream;
  TinyContext stream(options);
  for (TinyContext* context : {&exact, &stream}) {
    ASSERT_TRUE(context->step(0, 0, 100));
    const StepRecord record = context->end(0, 0, false);
    EXPECT_EQ(record.live_max, context == &exact ? 100 : 40);
    EXPECT_EQ(record.has_budget, context != &exact);
    ASSERT_TRUE(context->step(0, 100, 50));
    EXPECT_EQ(context->end(0, 0.9).live_max, 40);
  }
}

TEST(Cache, EvictionDoesNotDependOnPrefillChunks) {
  CacheOptions options = options_of("conf");
  options.params.high = 60;
  options.params.low = 60;
  std::vector<std::vector<int32_t>> kept;
  for (const int32_t chunk : {1, 7, 64, 130}) {
    TinyContext context(options);
    for (int32_t first = 0; first < 130; first += chunk) {
      const int32_t n = std::min(chunk, 130 - first);
      ASSERT_TRUE(context.step(0, first, n));
      context.end(0, 0.5, first + n == 130);
    }
    ASSERT_EQ(context.positions(1).size(), 60U);
    kept.push_back(context.positions(1));
    EXPECT_EQ(kept.back(), kept.front()) << "chunk " << chunk;
  }
}

TEST(Cache, AlphaZeroEqualsTheWindow) {
  CacheOptions conf = options_of("conf");
  conf.params.high = conf.params.low = 50;
  conf.params.alpha = 0;
  CacheOptions window = options_of("window");
  window.params.budget = 50;
  TinyContext a(conf), b(window);
  for (int32_t first = 0; first < 160; first += first == 0 ? 100 : 1) {
    const int32_t n = first == 0 ? 100 : 1;
    ASSERT_TRUE(a.step(0, first, n));
    ASSERT_TRUE(b.step(0, first, n));
    a.end(0, 0.3);
    b.end(0, 0.3);
    ASSERT_EQ(a.positions(2), b.positions(2)) << first;
    ASSERT_EQ(a.out(), b.out());
  }
}

TEST(Cache, StreamsDoNotTouchEachOther) {
  CacheOptions options = options_of("window");
  options.params.budget = 30;
  TinyContext both(options, 2), alone(options);
  ASSERT_TRUE(both.step(0, 0, 64));
  ASSERT_TRUE(both.step(1, 0, 20));
  ASSERT_TRUE(alone.step(0, 0, 64));
  both.end(0, 0.5);
  both.end(1, 0.5);
  alone.end(0, 0.5);
  EXPECT_EQ(both.positions(0, 1).size(), 20U);
  ASSERT_TRUE(both.step(0, 64, 1));
  ASSERT_TRUE(alone.step(0, 64, 1));
  EXPECT_EQ(both.out(), alone.out());
  both.cache().clear_stream(0);
  EXPECT_EQ(both.cache().find(0, 0), nullptr);
  EXPECT_EQ(both.positions(0, 1).size(), 20U);
}

TEST(Cache, CopiedLayersAnswerLikeTheirSource) {
  for (const char* policy : {"none", "window"}) {
    CacheOptions options = options_of(policy);
    if (options.policy == "window") options.params.budget = 30;
    TinyContext context(options, 2);
    ASSERT_TRUE(context.step(0, 0, 64));
    context.end(0, 0.5);
    for (int32_t l = 0; l < kLayers; ++l) ASSERT_TRUE(context.cache().copy_layer(l, 0, 1));
    ASSERT_TRUE(context.step(0, 64, 1));
    const std::vector<float> original = context.out();
    ASSERT_TRUE(context.step(1, 64, 1));
    EXPECT_EQ(context.out(), original) << policy;
  }
}

TEST(Cache, TokensTheServerRemovedAreNeverRead) {
  CacheOptions options = options_of("window");
  options.params.budget = 4000;
  TinyContext context(options), fresh(options);
  ASSERT_TRUE(context.step(0, 0, 90));
  ASSERT_TRUE(context.step(0, 90, 1, {10, 11, 12}));
  EXPECT_EQ(context.positions(0).size(), 88U);
  ASSERT_TRUE(context.step(0, 40, 2, {10, 11, 12}));  // the tail from 40 on is written anew
  EXPECT_EQ(context.positions(0).size(), 39U);
  ASSERT_TRUE(fresh.step(0, 0, 40));
  ASSERT_TRUE(fresh.step(0, 40, 2, {10, 11, 12}));
  EXPECT_EQ(context.out(), fresh.out());
}

TEST(Cache, VisibleTokensWithoutRowsAreRefused) {
  CacheOptions options = options_of("window");
  options.params.budget = 100;
  TinyContext context(options);
  ASSERT_TRUE(context.step(0, 0, 20));
  context.cache().clear_stream(0);  // as after a restored state
  Result<void> done = context.step(0, 20, 1);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().find("sees 21 tokens but holds 1"), std::string::npos) << done.error();
}

// Another sequence's tokens hide those of the first, whose rows are then taken for removed.
TEST(Cache, SequencesThatShareAStreamAreRefusedAfterEvictionToo) {
  CacheOptions options = options_of("window");
  options.params.budget = 40;
  TinyContext context(options);
  ASSERT_TRUE(context.step(0, 0, 100));
  EXPECT_EQ(context.end(0, 0.5).evicted, int64_t{60} * kLayers);
  std::vector<int32_t> others(100);
  std::iota(others.begin(), others.end(), 0);
  ASSERT_TRUE(context.step(0, 100, 1, others));
  Result<void> done = context.step(0, 101, 1);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().find("sees 102 tokens but holds 62"), std::string::npos) << done.error();
}

TEST(Cache, ReportedBytesFollowRows) {
  CacheOptions options = options_of("window");
  options.params.budget = 128;
  TinyContext context(options);
  const auto page = static_cast<int64_t>(PageArena::footprint(F16Page::bytes(kGeometry)));
  ASSERT_TRUE(context.step(0, 0, 640));
  EXPECT_EQ(context.cache().bytes().rows / page, int64_t{10} * kLayers);
  context.end(0, 0.5);
  EXPECT_EQ(context.cache().bytes().rows / page, 3 * kLayers) << "two pages and a spare";
  EXPECT_GE(context.cache().peak_bytes(), int64_t{10} * kLayers * page);
  context.cache().clear();
  EXPECT_EQ(context.cache().bytes().rows, 0);
}

// With positions in the cache, a query over survivors equals attention with every key rotated for
// its slot: keys are rotated here at their slots, and the cache holds them rotated at their
// positions.
TEST(Cache, PositionsInTheCacheAreSlots) {
  CacheOptions options = options_of("window");
  options.params.budget = 24;
  options.positions = PositionMode::kCache;
  TinyContext context(options);
  RopeSpec spec;
  spec.neox = true;
  for (int32_t i = 0; i < 8; ++i) spec.frequencies.push_back(std::pow(100.0, -i / 8.0));
  context.set_rope(spec);
  ASSERT_TRUE(context.step(0, 0, 60));
  context.end(0, 0.5);
  ASSERT_TRUE(context.step(0, 60, 1));

  const std::vector<int32_t> live = context.positions(kLayers - 1);  // out() is the last layer's
  ASSERT_EQ(live.size(), 25U);
  Rotator rotator(spec);
  Sequence turned = context.rows(kLayers - 1);
  std::vector<float> row(16);
  const auto query_slot = static_cast<int32_t>(live.size()) - 1;
  for (int32_t slot = 0; slot <= query_slot; ++slot) {
    const int32_t position = live[static_cast<size_t>(slot)];
    // The query stays at position 60; a key at slot s belongs at 60 - (query_slot - s).
    const int32_t wanted = 60 - (query_slot - slot);
    for (int32_t h = 0; h < 2; ++h) {
      float* k = turned.k.data() + ptrdiff_t{position} * kGeometry.width_k() + ptrdiff_t{h} * 16;
      rotator.apply(rotator.prepare(wanted - position), k, 16, row.data());
      std::copy(row.begin(), row.end(), k);
    }
  }
  const Sequence& original = context.rows(kLayers - 1);
  for (int32_t h = 0; h < kHeads; ++h) {
    const float* q = original.k_row(60 * 7 % 900) + ptrdiff_t{h % 2} * 16;
    const auto expected = testing::plain_attention(
        turned, live, std::vector<double>(live.size(), 0.0), h / 2, q, 0.25, 0, testing::kNoSink);
    for (int32_t d = 0; d < 16; ++d) {
      EXPECT_NEAR(context.out()[static_cast<size_t>(h * 16 + d)],
                  expected.out[static_cast<size_t>(d)], 2e-5);
    }
  }
}

}  // namespace
}  // namespace kvasir
