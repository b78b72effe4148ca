// Demoted rows: attention reads what the format decodes, tiers hold what they should, bytes stay.
#include <gtest/gtest.h>

#include <numeric>

#include "cache/cache.h"
#include "cache/coded_tier.h"
#include "cache/test_rows.h"

namespace kvasir {
namespace {

using testing::kNoSink;
using testing::plain_attention;
using testing::Sequence;

struct Shape {
  LayerGeometry geometry;
  int32_t n_heads;
};

// One layer of one stream: tokens 0, 1, 2, ... arrive in cells of the same numbers.
class OneLayer {
 public:
  OneLayer(const Shape& shape, const CacheOptions& options, int32_t n_cells = 2048)
      : shape_(shape), rows_(Sequence::random(shape.geometry, n_cells, 7)), n_cells_(n_cells) {
    CacheConfig config;
    config.n_cells = n_cells;
    config.options = options;
    auto made = Cache::create(config, best_kernels());
    EXPECT_TRUE(made) << made.error();
    cache_ = std::move(made.value());
    EXPECT_TRUE(cache_->set_geometry(0, shape.geometry));
  }

  Cache& cache() { return *cache_; }
  LayerCache& layer() { return *cache_->find(0, 0); }
  const std::vector<float>& out() const { return out_; }

  const float* query(int32_t token, int32_t head) const {
    const int32_t kv_head = head / (shape_.n_heads / shape_.geometry.n_kv_heads);
    return rows_.k_row(token * 7 % 900) + ptrdiff_t{kv_head} * shape_.geometry.head_dim_k;
  }

  // Tokens [first, first + n) arrive and attend; cells of `removed` are hidden from all of them.
  void step(int32_t first, int32_t n, const std::vector<int32_t>& removed = {}) {
    const LayerGeometry& g = shape_.geometry;
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    std::iota(tokens.begin(), tokens.end(), first);
    std::vector<uint16_t> mask(static_cast<size_t>(n) * static_cast<size_t>(n_cells_),
                               kF16MinusInf);
    for (int32_t t = 0; t < n; ++t) {
      uint16_t* row = mask.data() + ptrdiff_t{t} * n_cells_;
      std::fill_n(row, first + t + 1, uint16_t{0});
      for (const int32_t cell : removed) row[cell] = kF16MinusInf;
    }
    ASSERT_TRUE(cache_->append_k(0, 0, {tokens, tokens}, {rows_.k_row(first), g.width_k(), n}));
    ASSERT_TRUE(cache_->append_v(0, 0, {tokens, tokens}, {rows_.v_row(first), g.width_v(), n}));
    std::vector<float> q;
    for (int32_t t = 0; t < n; ++t) {
      for (int32_t h = 0; h < shape_.n_heads; ++h) {
        const float* row = query(first + t, h);
        q.insert(q.end(), row, row + g.head_dim_k);
      }
    }
    out_.assign(static_cast<size_t>(n) * static_cast<size_t>(shape_.n_heads * g.head_dim_v), 0.0F);
    AttendArgs args;
    args.n_queries = n;
    args.n_heads = shape_.n_heads;
    args.q = q.data();
    args.q_query = ptrdiff_t{shape_.n_heads} * g.head_dim_k;
    args.q_head = g.head_dim_k;
    args.mask = mask.data();
    args.mask_query = n_cells_;
    args.n_cells = n_cells_;
    args.scale = kScale;
    args.out = out_.data();
    args.out_query = ptrdiff_t{shape_.n_heads} * g.head_dim_v;
    args.out_head = g.head_dim_v;
    args.positions = tokens;
    args.epoch = ++epoch_;
    auto done = cache_->attend(args, serial_);
    ASSERT_TRUE(done) << done.error();
  }

  void end(bool decoded = true) {
    Confidence confidence;
    confidence.c = 0.5;
    confidence.valid = true;
    StepRecord record;
    StepState state;
    state.decoded = decoded;
    state.confidence = decoded ? &confidence : nullptr;
    cache_->end_step(0, state, serial_, record);
  }

  // K and V of all slots as the cache gives them back.
  Sequence stored() {
    const LayerGeometry& g = shape_.geometry;
    Sequence s{g, {}, {}};
    for (const bool is_k : {true, false}) {
      std::vector<uint16_t> row(static_cast<size_t>(is_k ? g.width_k() : g.width_v()));
      for (int32_t slot = 0; slot < layer().n_slots(); ++slot) {
        layer().read_row(slot, is_k, row.data());
        for (const uint16_t half : row) (is_k ? s.k : s.v).push_back(half_to_float(half));
      }
    }
    return s;
  }

  // Largest difference of the last query's output from plain attention over what is stored.
  double error_of_last(int32_t token, const Sequence& stored) {
    const LayerGeometry& g = shape_.geometry;
    std::vector<int32_t> slots(static_cast<size_t>(layer().n_slots()));
    std::iota(slots.begin(), slots.end(), 0);
    const std::vector<double> bias(slots.size(), 0.0);
    double worst = 0;
    const size_t last = out_.size() - static_cast<size_t>(shape_.n_heads * g.head_dim_v);
    for (int32_t h = 0; h < shape_.n_heads; ++h) {
      const auto expected =
          plain_attention(stored, slots, bias, h / (shape_.n_heads / g.n_kv_heads), query(token, h),
                          double{kScale}, 0, kNoSink);
      for (int32_t d = 0; d < g.head_dim_v; ++d) {
        const double seen = out_[last + static_cast<size_t>(h * g.head_dim_v + d)];
        worst = std::max(worst, std::abs(seen - expected.out[static_cast<size_t>(d)]));
      }
    }
    return worst;
  }

 private:
  static constexpr float kScale = 0.25F;
  Shape shape_;
  Sequence rows_;
  int32_t n_cells_;
  std::unique_ptr<Cache> cache_;
  std::vector<float> out_;
  int64_t epoch_ = 0;
  SerialFor serial_;
};

CacheOptions with_format(const std::string& format, int32_t recent = 64) {
  CacheOptions options;
  options.format = format;
  options.recent = recent;
  return options;
}

std::vector<std::string> all_formats() {
  std::vector<std::string> names;
  for (const RowFormat& format : row_formats()) {
    if (format.name != "f16") names.emplace_back(format.name);
  }
  for (const char* together : {"residual", "latent"}) names.emplace_back(together);
  for (const char* pair :
       {"int8/int4", "int8/int8-channel", "kivi4/int8-channel", "f16/kivi4", "k5v4/f16"}) {
    names.emplace_back(pair);
  }
  return names;
}

class Demotion : public ::testing::TestWithParam<std::string> {};

const Shape kShapes[] = {
    {{2, 64, 64}, 6}, {{1, 80, 80}, 8}, {{3, 96, 64}, 3}, {{2, 100, 100}, 8}, {{1, 256, 256}, 4}};

TEST_P(Demotion, AttentionReadsWhatIsStored) {
  for (const Shape& shape : kShapes) {
    OneLayer context(shape, with_format(GetParam()));
    context.step(0, 600);
    context.end();
    ASSERT_GE(context.layer().n_cold(), 384);
    context.step(600, 1);
    // What the reader sees is rounded to f16 once more, and turned rows are rounded while turned.
    EXPECT_LT(context.error_of_last(600, context.stored()), 4e-3) << shape.geometry.head_dim_k;
    context.step(601, 40);
    EXPECT_LT(context.error_of_last(640, context.stored()), 4e-3) << shape.geometry.head_dim_k;
  }
}

TEST_P(Demotion, SinksAndTheNewestStayExact) {
  const Shape shape = kShapes[0];
  OneLayer exact(shape, CacheOptions{});
  OneLayer context(shape, with_format(GetParam()));
  for (OneLayer* c : {&exact, &context}) c->step(0, 500);
  exact.end();
  context.end();
  const int32_t unit = context.layer().cold()->unit();
  const int32_t n = context.layer().n_slots();
  const int32_t n_f16 = n - context.layer().n_cold();
  EXPECT_GE(n_f16, 4 + 64);
  EXPECT_LT(n_f16, 4 + 64 + unit);
  std::vector<uint16_t> row(static_cast<size_t>(shape.geometry.width_k()));
  std::vector<uint16_t> same(row.size());
  int32_t n_changed = 0;
  for (int32_t slot = 0; slot < n; ++slot) {
    context.layer().read_row(slot, true, row.data());
    exact.layer().read_row(slot, true, same.data());
    const bool is_exact = slot < 4 || slot >= n - 64;
    if (is_exact) {
      EXPECT_EQ(row, same) << slot;
    }
    n_changed += row != same ? 1 : 0;
  }
  const auto* coded = dynamic_cast<const CodedTier*>(context.layer().cold());
  if (coded == nullptr || coded->codecs().k != nullptr) {
    EXPECT_GT(n_changed, 300);
  }
}

TEST_P(Demotion, NothingChangesWhileTheWindowHoldsAll) {
  const Shape shape = kShapes[0];
  OneLayer exact(shape, CacheOptions{});
  OneLayer context(shape, with_format(GetParam(), 1000));
  for (int32_t first = 0; first < 300; first += 100) {
    exact.step(first, 100);
    context.step(first, 100);
    exact.end();
    context.end();
    EXPECT_EQ(exact.out(), context.out());
  }
  EXPECT_EQ(context.layer().n_cold(), 0);
}

// Rows that leave must not touch those that stay, in whatever tier they lie.
TEST_P(Demotion, RowsKeepTheirBytesWhenOthersLeave) {
  const Shape shape = kShapes[0];
  OneLayer context(shape, with_format(GetParam()));
  context.step(0, 600);
  context.end();
  const Sequence before = context.stored();
  const auto positions_before = context.layer().positions();
  const std::vector<int32_t> was(positions_before.begin(), positions_before.end());
  // The server removes some cells of each tier; what the rest decodes to stays.
  std::vector<int32_t> removed = {1, 17, 590, 599};
  for (int32_t cell = 40; cell < 500; cell += 3) removed.push_back(cell);
  context.step(600, 1, removed);
  const auto now = context.layer().positions();
  ASSERT_EQ(now.size(), was.size() + 1 - removed.size());
  const Sequence after = context.stored();
  for (size_t slot = 0; slot + 1 < now.size(); ++slot) {
    const auto old = std::find(was.begin(), was.end(), now[slot]) - was.begin();
    for (const bool is_k : {true, false}) {
      const int32_t width = is_k ? shape.geometry.width_k() : shape.geometry.width_v();
      const auto& a = is_k ? before.k : before.v;
      const auto& b = is_k ? after.k : after.v;
      EXPECT_TRUE(std::equal(a.begin() + old * width, a.begin() + (old + 1) * width,
                             b.begin() + static_cast<ptrdiff_t>(slot) * width))
          << "position " << now[slot];
    }
  }
  EXPECT_LT(context.error_of_last(600, after), 4e-3);
}

// Evict and demote together, step by step; the state that attention sees stays consistent.
TEST_P(Demotion, WorksUnderAnEvictingPolicy) {
  CacheOptions options = with_format(GetParam(), 32);
  options.policy = "conf";
  options.params.high = 150;
  options.params.low = 300;
  OneLayer context(kShapes[0], options);
  context.step(0, 500);
  context.end();
  for (int32_t token = 500; token < 640; ++token) {
    context.step(token, 1);
    if (token % 20 == 0) {
      EXPECT_LT(context.error_of_last(token, context.stored()), 4e-3) << token;
    }
    context.end();
    const auto p = context.layer().positions();
    ASSERT_TRUE(std::is_sorted(p.begin(), p.end()));
    ASSERT_LE(context.layer().n_slots(), 300);
    const ReadOrder order = context.layer().read_order();
    ASSERT_EQ(order.n_head, 4);
    ASSERT_GE(order.n_f16(), 4 + 32);
  }
  EXPECT_GT(context.layer().n_cold(), 100);
}

// Positions that are slots: rows of every tier read queries that are rotated by what was evicted
// behind them.
TEST_P(Demotion, PositionsInTheCacheReachEveryTier) {
  CacheOptions options = with_format(GetParam(), 32);
  options.policy = "random";  // leaves many holes
  options.params.budget = 300;
  options.positions = PositionMode::kCache;
  OneLayer context(kShapes[0], options);
  RopeSpec rope;
  for (int32_t i = 0; i < 32; ++i) rope.frequencies.push_back(std::pow(10000.0, -i / 32.0));
  context.cache().set_rope(0, rope);
  context.step(0, 500);
  context.end();
  context.step(500, 1);
  ASSERT_GT(context.layer().n_cold(), 100);
  // Keys as they would be, had they been rotated for their slots.
  Sequence turned = context.stored();
  const auto positions = context.layer().positions();
  const auto newest = static_cast<int32_t>(positions.size()) - 1;
  Rotator rotator(rope);
  std::vector<float> row(64);
  for (int32_t slot = 0; slot <= newest; ++slot) {
    const int32_t delta = slot - positions[static_cast<size_t>(slot)] + 500 - newest;
    for (int32_t head = 0; head < 2; ++head) {
      float* k = turned.k.data() + (ptrdiff_t{slot} * 2 + head) * 64;
      rotator.apply(rotator.prepare(delta), k, 64, row.data());
      std::copy(row.begin(), row.end(), k);
    }
  }
  EXPECT_LT(context.error_of_last(500, turned), 4e-3);
  EXPECT_GT(context.error_of_last(500, context.stored()), 4e-2);
}

TEST_P(Demotion, ACopyHoldsTheSameRows) {
  CacheConfig config;
  config.n_streams = 2;
  config.n_cells = 1024;
  config.options = with_format(GetParam());
  auto made = Cache::create(config, best_kernels());
  ASSERT_TRUE(made) << made.error();
  Cache& cache = *made.value();
  const LayerGeometry g{2, 64, 64};
  ASSERT_TRUE(cache.set_geometry(0, g));
  const Sequence rows = Sequence::random(g, 500, 3);
  std::vector<int32_t> tokens(500);
  std::iota(tokens.begin(), tokens.end(), 0);
  ASSERT_TRUE(cache.append_k(0, 0, {tokens, tokens}, {rows.k.data(), g.width_k(), 500}));
  ASSERT_TRUE(cache.append_v(0, 0, {tokens, tokens}, {rows.v.data(), g.width_v(), 500}));
  SerialFor serial;
  StepRecord record;
  StepState state;
  state.decoded = true;
  cache.end_step(0, state, serial, record);
  EXPECT_GT(record.bytes_demoted, 0);
  ASSERT_TRUE(cache.copy_layer(0, 0, 1));
  std::vector<uint16_t> a(static_cast<size_t>(g.width_k())), b(a.size());
  for (int32_t slot = 0; slot < 500; ++slot) {
    for (const bool is_k : {true, false}) {
      cache.find(0, 0)->read_row(slot, is_k, a.data());
      cache.find(0, 1)->read_row(slot, is_k, b.data());
      ASSERT_EQ(a, b) << slot;
    }
  }
  // A copy has no room to spare in its tables.
  EXPECT_LE(cache.find(0, 1)->cold_bytes(), cache.find(0, 0)->cold_bytes());
  EXPECT_GT(cache.find(0, 1)->cold_bytes(), cache.find(0, 0)->cold_bytes() * 95 / 100);
}

INSTANTIATE_TEST_SUITE_P(Formats, Demotion, ::testing::ValuesIn(all_formats()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

// A scale that outlives its rows is counted: shared bytes go with the last row of their block.
TEST(BlockTable, CountsWhatBlocksShare) {
  BlockTable table(4, 16);
  for (int32_t block = 0; block < 3; ++block)
    std::fill_n(table.add(block * 4), 16, std::byte(block));
  const size_t full = table.bytes();
  int32_t end = 0;
  EXPECT_EQ(*table.find(5, 12, end), std::byte{1});
  EXPECT_EQ(end, 8);
  // Slots 3 to 7 leave but for 6: block 0 loses a row, block 1 keeps one.
  const std::vector<int32_t> survivors = {6, 8, 9, 10, 11};
  table.keep(3, survivors);
  EXPECT_EQ(table.n_blocks(), 3);
  EXPECT_EQ(*table.find(2, 8, end), std::byte{0});
  EXPECT_EQ(end, 3);
  EXPECT_EQ(*table.find(3, 8, end), std::byte{1});
  EXPECT_EQ(end, 4);
  EXPECT_EQ(*table.find(4, 8, end), std::byte{2});
  EXPECT_EQ(end, 8);
  const std::vector<int32_t> without_1 = {4, 5, 6, 7};
  table.keep(3, without_1);
  EXPECT_EQ(table.n_blocks(), 2);
  EXPECT_EQ(*table.find(3, 7, end), std::byte{2});
  EXPECT_EQ(table.bytes(), full);  // the room of block 1 waits for the next
  std::fill_n(table.add(7), 16, std::byte{9});
  EXPECT_EQ(table.bytes(), full);
  EXPECT_EQ(*table.find(8, 9, end), std::byte{9});
}

TEST(FormatSpec, ReadsLayersAndSides) {
  const auto spec = parse_format("int8-channel,first=2:int8,last=1:f16/int8");
  ASSERT_TRUE(spec) << spec.error();
  const auto codecs = [&](int32_t layer) { return spec.value().of_layer(layer, 10); };
  EXPECT_EQ(codecs(0).k, find_format("int8")->k);
  EXPECT_EQ(codecs(1).v, find_format("int8")->v);
  EXPECT_EQ(codecs(2).k, find_format("int8-channel")->k);
  EXPECT_EQ(codecs(8).v, find_format("int8-channel")->v);
  EXPECT_EQ(codecs(9).k, nullptr);
  EXPECT_EQ(codecs(9).v, find_format("int8")->v);
  for (const char* bad : {"", "q8_0", "int8/", "int8,first=0:int8", "int8,first=x:int8",
                          "int8,middle=1:f16", "int8,last=1", "int8,last=1:q4"}) {
    const auto refused = parse_format(bad);
    EXPECT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().find("--kv-format"), std::string::npos) << refused.error();
    EXPECT_EQ(refused.error().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace kvasir
