// A step that reads a part of its rows: which rows those are, that attention over them is right,
// and that nothing else is touched.
#include "cache/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "cache/cache.h"
#include "cache/count_allocations.h"
#include "cache/test_streams.h"

namespace kvasir {
namespace {

using testing::Sequence;
using testing::Shape;
using testing::Streams;
using testing::ThreadFor;

constexpr int32_t kSinks = 4;
constexpr int32_t kRecent = 40;

size_t z(int64_t n) { return static_cast<size_t>(n); }

const Shape kShapes[] = {{"gqa", 6, 2, 64}, {"mqa", 5, 1, 80}, {"odd", 4, 2, 33}};

CacheOptions options_of(const std::string& select, const std::string& format, Keep keep) {
  CacheOptions options;
  options.select = select;
  options.format = format;
  options.recent = kRecent;
  if (select == "dense") return options;
  options.select_params.keep = keep;
  options.select_params.full_layers = {0};
  return options;
}

// Sinks, `chosen` and the newest, of n tokens.
std::vector<int32_t> with_always(const std::set<int32_t>& chosen, int32_t first, int32_t last,
                                 int32_t n) {
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < n; ++t) {
    if (t < first || t >= last || chosen.contains(t)) tokens.push_back(t);
  }
  return tokens;
}

// The k candidates [first, last) with the largest softmax over the heads of a layer, in double.
std::set<int32_t> best_tokens(Streams& run, int32_t layer, int32_t stream, int32_t n_heads,
                              int32_t first, int32_t last, int32_t k) {
  std::vector<std::pair<double, int32_t>> scores;
  for (int32_t t = first; t < last; ++t) scores.emplace_back(0, t);
  for (int32_t h = 0; h < n_heads; ++h) {
    double sum = 0;
    for (int32_t t = first; t < last; ++t) sum += std::exp(run.score(layer, stream, h, t));
    for (auto& [score, t] : scores) {
      score = std::max(score, std::exp(run.score(layer, stream, h, t)) / sum);
    }
  }
  std::sort(scores.rbegin(), scores.rend());
  std::set<int32_t> tokens;
  for (int32_t i = 0; i < k; ++i) tokens.insert(scores[z(i)].second);
  return tokens;
}

// The best k pages of 16 from `first` on, by bounds in double.
std::set<int32_t> best_pages(Streams& run, const Shape& shape, int32_t layer, int32_t stream,
                             int32_t first, int32_t n_pages, int32_t k, int32_t n_seen) {
  std::vector<std::pair<double, int32_t>> scores;
  for (int32_t page = 0; page < n_pages; ++page) {
    double best = -1e30;
    for (int32_t h = 0; h < shape.n_heads; ++h) {
      const float* q = run.query(layer, n_seen - 1) + ptrdiff_t{h} * shape.head_dim;
      double sum = 0;
      for (int32_t d = 0; d < shape.head_dim; ++d) {
        double most = -1e30;
        for (int32_t i = 0; i < 16; ++i) {
          const float* k_row = run.rows(layer, stream).k_row(first + page * 16 + i) +
                               ptrdiff_t{h / (shape.n_heads / shape.n_kv_heads)} * shape.head_dim;
          most = std::max(most, double{q[d]} * k_row[d]);
        }
        sum += most;
      }
      best = std::max(best, sum);
    }
    scores.emplace_back(best, page);
  }
  std::sort(scores.rbegin(), scores.rend());
  std::set<int32_t> tokens;
  for (int32_t i = 0; i < k; ++i) {
    for (int32_t j = 0; j < 16; ++j) tokens.insert(first + scores[z(i)].second * 16 + j);
  }
  return tokens;
}

class SelectionOf : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, SelectionOf, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

// f32 sums of unit normals, in another order than in double.
constexpr double kTolerance = 2e-5;

TEST_P(SelectionOf, OmniKvReadsSinksSelectedAndTheNewest) {
  const Shape& shape = GetParam();
  ThreadFor threads(3);
  for (const int32_t k : {5, 100}) {
    Streams run(shape, options_of("omnikv", "f16", {k, 0}), {300, 517, 60}, 3, threads);
    for (int32_t step = 0; step < 3; ++step) {
      run.decode();
      for (int32_t s = 0; s < 3; ++s) {
        const int32_t n = run.n_seen(s);
        const int32_t last = std::max(kSinks, n - kRecent);
        std::vector<int32_t> all(z(n));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_LT(run.error(0, s, all), kTolerance);
        // A stream with fewer candidates reads all.
        const auto chosen =
            best_tokens(run, 0, s, shape.n_heads, kSinks, last, std::min(k, last - kSinks));
        const auto tokens = with_always(chosen, kSinks, last, n);
        for (const int32_t layer : {1, 2}) {
          EXPECT_LT(run.error(layer, s, tokens), kTolerance) << "k " << k << " stream " << s;
        }
      }
      for (int32_t s = 0; s < 3; ++s) run.end(s, true);
    }
  }
}

TEST_P(SelectionOf, QuestReadsTheBestPagesOfEachLayer) {
  const Shape& shape = GetParam();
  ThreadFor threads(3);
  Streams run(shape, options_of("quest", "f16", {60, 0}), {300, 517, 60}, 3, threads);
  for (int32_t step = 0; step < 20; ++step) {
    run.decode();
    for (int32_t s = 0; s < 3; ++s) {
      const int32_t n = run.n_seen(s);
      const int32_t n_pages =
          std::max(0, n - kRecent - 16) / 16;  // the first 16 are read with sinks
      for (const int32_t layer : {1, 2}) {
        const int32_t k = std::min(4, n_pages);  // 60 tokens
        const auto chosen = best_pages(run, shape, layer, s, 16, n_pages, k, n);
        EXPECT_LT(run.error(layer, s, with_always(chosen, 16, 16 + 16 * n_pages, n)), kTolerance)
            << "layer " << layer << " stream " << s << " step " << step;
      }
    }
    for (int32_t s = 0; s < 3; ++s) run.end(s, true);
  }
}

// With all candidates kept a step is the dense one, to the bit.
TEST_P(SelectionOf, EverythingKeptIsDense) {
  SerialFor serial;
  for (const char* format : {"f16", "int8", "k5v4", "residual"}) {
    if (GetParam().head_dim % 16 != 0 && std::string(format) == "k5v4") continue;
    for (const char* select : {"omnikv", "quest", "sketch", "sketch16"}) {
      Streams run(GetParam(), options_of(select, format, {0, 100}), {300, 200, 60}, 3, serial);
      Streams fresh(GetParam(), options_of("dense", format, {}), {300, 200, 60}, 3, serial);
      for (int32_t step = 0; step < 4; ++step) {
        run.decode();
        fresh.decode();
        // By cell where all is f16 and dense: the same rows in the same order.
        EXPECT_EQ(run.outs(), fresh.outs()) << format << " " << select << " step " << step;
        for (int32_t s = 0; s < 3; ++s) {
          run.end(s, true);
          fresh.end(s, true);
        }
      }
    }
  }
}

// Binary16 differences restore rows to rounding: with everything read, decoding over them is
// decoding over f16 rows.
TEST_P(SelectionOf, BinarySixteenDifferencesAreTheDenseCache) {
  SerialFor serial;
  CacheOptions options = options_of("omnikv", "residual", {0, 100});
  options.residual.bits = 16;
  options.residual.int8 = false;
  Streams run(GetParam(), options, {700, 300}, 3, serial);
  Streams exact(GetParam(), CacheOptions{}, {700, 300}, 3, serial);
  for (int32_t step = 0; step < 3; ++step) {
    run.decode();
    exact.decode();
    const std::vector<float> seen = run.outs();
    const std::vector<float> expected = exact.outs();
    ASSERT_EQ(seen.size(), expected.size());
    for (size_t i = 0; i < seen.size(); ++i) {
      ASSERT_NEAR(seen[i], expected[i], 4e-3) << "step " << step;
    }
    for (int32_t s = 0; s < 2; ++s) {
      run.end(s, true);
      exact.end(s, true);
    }
  }
  EXPECT_GT(run.cache().find(1, 0)->n_cold(), 256);
}

// Demoted rows are read in place, gathered, or decoded alone: whatever is chosen, attention over
// it is that over the decoded rows.
TEST(Selection, ReadsDemotedRowsAsTheirFormatGivesThem) {
  SerialFor serial;
  const Shape shape{"gqa", 6, 2, 64};
  for (const char* format : {"int8", "int8-channel", "k5v4", "nf4", "kivi2", "residual"}) {
    for (const char* select : {"omnikv", "quest"}) {
      for (const int32_t k : {20, 150}) {
        Streams run(shape, options_of(select, format, {k, 0}), {400, 333}, 2, serial);
        for (int32_t s = 0; s < 2; ++s) run.end(s, true);  // demotes
        // What the cache holds becomes what plain attention reads.
        for (int32_t s = 0; s < 2; ++s) {
          for (int32_t layer = 0; layer < 2; ++layer) {
            const LayerCache& rows = *run.cache().find(layer, s);
            ASSERT_GT(rows.n_cold(), 200) << format;
            Sequence& held = run.rows(layer, s);
            std::vector<uint16_t> row(z(rows.rows().geometry().width_k()));
            for (int32_t slot = 0; slot < rows.n_slots(); ++slot) {
              for (const bool is_k : {true, false}) {
                rows.read_row(slot, is_k, row.data());
                std::vector<float>& into = is_k ? held.k : held.v;
                std::transform(row.begin(), row.end(), into.begin() + ptrdiff_t{slot} * 128,
                               half_to_float);
              }
            }
          }
        }
        run.decode();
        for (int32_t s = 0; s < 2; ++s) {
          const LayerCache& rows = *run.cache().find(1, s);
          const int32_t n_cold = rows.n_cold();
          const int32_t n = run.n_seen(s);
          const bool quest = std::string(select) == "quest";
          const int32_t n_pages = n_cold / 16;
          const int32_t last = kSinks + (quest ? n_pages * 16 : n_cold);
          const auto chosen = quest
                                  ? best_pages(run, shape, 1, s, kSinks, n_pages, (k + 15) / 16, n)
                                  : best_tokens(run, 0, s, shape.n_heads, kSinks, last, k);
          // Keys are turned back and rounded to f16 for plain attention, and multiplied as codes
          // of 16 bits: 2^-11 of keys of a few units.
          EXPECT_LT(run.error(1, s, with_always(chosen, kSinks, last, n)), 4e-3)
              << format << " " << select << " " << k << " stream " << s;
        }
      }
    }
  }
}

// Rows that are not chosen are never part of a result.
TEST(Selection, UnselectedRowsAreNotRead) {
  SerialFor serial;
  const Shape shape{"gqa", 6, 2, 64};
  Streams clean(shape, options_of("omnikv", "f16", {30, 0}), {500}, 2, serial);
  Streams poisoned(shape, options_of("omnikv", "f16", {30, 0}), {500}, 2, serial);
  clean.decode();
  const int32_t last = 501 - kRecent;
  // One more than are read, so that a tie of rounding is no failure.
  const auto chosen = best_tokens(clean, 0, 0, 6, kSinks, last, 30);
  F16Tier& rows = poisoned.cache().find(1, 0)->rows();
  const std::vector<uint16_t> huge(128, float_to_half(6e4F));
  for (int32_t t = kSinks; t < last; ++t) {
    if (chosen.contains(t)) continue;
    rows.write_k(t, huge.data());
    rows.write_v(t, huge.data());
  }
  poisoned.decode();
  EXPECT_EQ(clean.outs(), poisoned.outs());
}

TEST(Selection, SeveralQueriesAreDense) {
  SerialFor serial;
  const Shape shape{"gqa", 6, 2, 64};
  Streams dense(shape, options_of("dense", "f16", {}), {300}, 3, serial);
  for (const char* select : {"omnikv", "quest", "sketch", "sketch16"}) {
    Streams run(shape, options_of(select, "f16", {8, 0}), {300}, 3, serial);
    EXPECT_EQ(run.prompt_out(), dense.prompt_out());
    run.decode();
    EXPECT_LT(run.cache().rows_read(), run.cache().rows_live());
    const int64_t before = run.cache().rows_read();
    Streams fresh(shape, options_of("dense", "f16", {}), {300}, 3, serial);
    fresh.decode();
    run.read(0, 2);
    fresh.read(0, 2);
    EXPECT_EQ(run.prompt_out(), fresh.prompt_out());
    EXPECT_EQ(run.cache().rows_read(), before);
  }
}

TEST(Selection, CountsWhatIsRead) {
  SerialFor serial;
  Streams run({"gqa", 6, 2, 64}, options_of("omnikv", "f16", {30, 0}), {500}, 3, serial);
  run.decode();
  EXPECT_EQ(run.cache().rows_live(), 3 * 501);
  EXPECT_EQ(run.cache().rows_read(), 501 + 2 * (kSinks + 30 + kRecent));
  EXPECT_GT(run.cache().times().selection, 0);
  EXPECT_LE(run.cache().times().selection, run.cache().times().attention);
}

// Layers that hold other tokens than the one that chose read what they have of the choice.
TEST(Selection, FollowsByPositionWhereLayersDiffer) {
  SerialFor serial;
  const Shape shape{"gqa", 6, 2, 64};
  CacheOptions options = options_of("omnikv", "f16", {60, 0});
  options.policy = "random";
  options.params.budget = 300;
  Streams run(shape, options, {500}, 3, serial);
  for (int32_t step = 0; step < 5; ++step) {
    run.decode();
    const std::vector<int32_t> live = run.cache().live_positions(0, 0);
    const int32_t n = run.n_seen(0);
    if (step > 0) {
      ASSERT_NE(live, run.cache().live_positions(0, 1));
      // Candidates are what the first layer holds.
      const int32_t last = live[live.size() - z(kRecent)];
      std::vector<std::pair<double, int32_t>> scores;
      const std::vector<int32_t> candidates(live.begin() + kSinks, live.end() - kRecent);
      for (const int32_t t : candidates) scores.emplace_back(0, t);
      for (int32_t h = 0; h < 6; ++h) {
        double sum = 0;
        for (const int32_t t : candidates) sum += std::exp(run.score(0, 0, h, t));
        for (auto& [score, t] : scores) {
          score = std::max(score, std::exp(run.score(0, 0, h, t)) / sum);
        }
      }
      std::sort(scores.rbegin(), scores.rend());
      std::set<int32_t> chosen;
      for (size_t i = 0; i < 60; ++i) chosen.insert(scores[i].second);
      for (const int32_t layer : {1, 2}) {
        std::vector<int32_t> tokens;
        const int32_t first = candidates.front(), end = candidates.back() + 1;
        EXPECT_LE(end, last);
        for (const int32_t t : run.cache().live_positions(0, layer)) {
          if (t < first || t >= end || chosen.contains(t)) tokens.push_back(t);
        }
        EXPECT_LT(run.error(layer, 0, tokens), kTolerance) << "step " << step << " of " << n;
      }
    }
    run.end(0, true);
  }
}

// Bounds of pages whose rows moved are made anew: with a window each step moves all.
TEST(Selection, BoundsStayRightWhereTokensLeave) {
  SerialFor serial;
  const Shape shape{"gqa", 6, 2, 64};
  CacheOptions options = options_of("quest", "f16", {64, 0});
  options.policy = "window";
  options.params.budget = 333;
  Streams run(shape, options, {500}, 2, serial);
  for (int32_t step = 0; step < 30; ++step) {
    run.decode();
    LayerCache& rows = *run.cache().find(1, 0);
    const int32_t head_dim = 64;
    std::vector<float> key(z(head_dim)), largest(z(head_dim)), smallest(z(head_dim));
    KeyIndex& bounds = *rows.index();
    ASSERT_GT(bounds.n_items(), 10);
    IndexScratch scratch;
    std::vector<float> scores(z(bounds.n_items()));
    const float* q = run.query(1, run.n_seen(0) - 1);
    bounds.score({q, head_dim, 6}, best_kernels(), serial, scratch, scores);
    for (int32_t page = 0; page < bounds.n_items(); ++page) {
      double most = -1e30, bound = -1e30;
      for (int32_t h = 0; h < 6; ++h) {
        std::vector<double> best(z(head_dim), -1e30);
        for (int32_t i = 0; i < 16; ++i) {
          rows.read_key(bounds.first_slot() + page * 16 + i, h / 3, key.data());
          double dot = 0;
          for (int32_t d = 0; d < head_dim; ++d) {
            const double product = double{q[h * head_dim + d]} * key[z(d)];
            dot += product;
            best[z(d)] = std::max(best[z(d)], product);
          }
          most = std::max(most, dot);
        }
        bound = std::max(bound, std::accumulate(best.begin(), best.end(), 0.0));
      }
      ASSERT_GE(scores[z(page)], most - 1e-3);
      ASSERT_NEAR(scores[z(page)], bound, 1e-3 * std::abs(bound)) << "step " << step;
    }
    run.end(0, true);
  }
}

TEST(Selection, CountsItsBytesAndAllocatesNothingInSteadyState) {
  SerialFor serial;
  const Shape shape{"gqa", 6, 2, 64};
  for (const char* select : {"omnikv", "quest", "sketch", "sketch16"}) {
    CacheOptions options = options_of(select, "f16", {64, 0});
    Streams run(shape, options, {500}, 3, serial);
    const int64_t before = run.cache().bytes().total();
    run.decode();
    EXPECT_GT(run.cache().bytes().total(), before);
    if (std::string(select) == "quest") {
      const size_t bounds = run.cache().find(1, 0)->index()->bytes();
      EXPECT_GT(bounds, 2 * 2 * 128 * 27 * sizeof(uint16_t));
      EXPECT_GE(run.cache().find(1, 0)->metadata_bytes(), bounds);
      EXPECT_EQ(run.cache().find(0, 0)->index(), nullptr);  // a full layer has none
    }
    // What a window holds does not grow; scratch holds the largest choice so far.
    options.policy = "window";
    options.params.budget = 320;
    Streams steady(shape, options, {500}, 3, serial);
    std::vector<int64_t> counts, bytes;
    for (int32_t step = 0; step < 300; ++step) {
      const int64_t first = n_allocations;
      steady.decode();
      steady.end(0, true);
      counts.push_back(n_allocations - first);
      bytes.push_back(steady.cache().bytes().total());
    }
    // The test itself allocates in each step, for queries; the cache does not.
    EXPECT_EQ(*std::max_element(counts.end() - 100, counts.end()),
              *std::min_element(counts.end() - 100, counts.end()));
    EXPECT_LT(counts.back(), 10);
    EXPECT_EQ(bytes.back(), bytes[200]);
  }
}

// Two layers of as many tokens, but other ones: the second is not read where the first was.
TEST(ReadPlan, LooksForTokensInEachLayer) {
  const LayerGeometry geometry{1, 16, 16};
  const Sequence text = Sequence::random(geometry, 100, 1);
  std::vector<int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  PageArena arena;
  std::vector<std::unique_ptr<LayerCache>> layers;
  for (const int32_t dropped : {10, 50}) {
    LayerCache& rows = *layers.emplace_back(std::make_unique<LayerCache>(
        Placement::kByArrival, geometry, nullptr, best_kernels(), arena));
    ASSERT_TRUE(rows.append_k({tokens, tokens}, {text.k_row(0), 16, 100}));
    ASSERT_TRUE(rows.append_v({tokens, tokens}, {text.v_row(0), 16, 100}));
    std::vector<int32_t> rest(tokens.begin() + dropped + 1, tokens.end());
    rows.keep(dropped, rest);
  }
  ReadSet set;
  set.version = 1;
  set.first = 4;
  set.last = 90;
  set.positions = {5, 20, 21, 22, 23, 60};
  ReadPlan plan;
  for (const auto& layer : layers) {
    plan.build(*layer, set, false);
    EXPECT_EQ(plan.n_read(), 4 + 6 + 10);
    std::set<int32_t> cells;
    for (const int32_t cell : plan.cells()) {
      if (cell != kNoCell) cells.insert(cell);
    }
    EXPECT_EQ(cells, (std::set<int32_t>{0,  1,  2,  3,  5,  20, 21, 22, 23, 60,
                                        90, 91, 92, 93, 94, 95, 96, 97, 98, 99}));
    // Each place holds the row of the token whose cell it is.
    PageScratch scratch;
    for (int32_t p = 0; p < plan.n_pages(); ++p) {
      const PageRef page = plan.page(p);
      const PageRows rows = read_rows(*layer, page, 0, best_kernels(), scratch);
      for (int32_t i = 0; i < page.n; ++i) {
        const int32_t cell = plan.cells()[z(p) * kPageSlots + z(i)];
        if (cell == kNoCell) continue;
        for (int32_t d = 0; d < 16; ++d) {
          EXPECT_EQ(half_to_float(rows.k[F16Page::k_index(16, i, d)]), text.k_row(cell)[d]);
          EXPECT_EQ(half_to_float(rows.v[i * 16 + d]), text.v_row(cell)[d]);
        }
      }
    }
  }
}

TEST(Selection, RefusesLayersThatAreNotThere) {
  SerialFor serial;
  CacheConfig config;
  config.n_cells = 256;
  config.options = options_of("omnikv", "f16", {5, 0});
  config.options.select_params.full_layers = {0, 9};
  auto cache = Cache::create(config, best_kernels());
  ASSERT_TRUE(cache);
  ASSERT_TRUE(cache.value()->set_geometry(0, {1, 16, 16}));
  AttendArgs args;
  const auto done = cache.value()->attend(args, serial);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), "--kv-full-layers 0,9: the cache has 1 layers, allowed are 0 to 0");
}

// Sliding-window layers read what they have.
TEST(Selection, SlidingWindowCachesAreDense) {
  CacheConfig config;
  config.n_cells = 256;
  config.dense = true;
  config.options = options_of("quest", "f16", {5, 0});
  auto cache = Cache::create(config, best_kernels());
  ASSERT_TRUE(cache);
  EXPECT_FALSE(cache.value()->moves_rows());
  EXPECT_EQ(cache.value()->rows_live(), 0);
}

}  // namespace
}  // namespace kvasir
