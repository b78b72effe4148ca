// Decode steps that choose by sketches of keys: which rows they read, and that sketches are of the
// rows that are there.
#include <gtest/gtest.h>

#include "cache/cache.h"
#include "cache/test_streams.h"
#include "select/key_sketch.h"
#include "select/top_k.h"

namespace kvasir {
namespace {

using testing::Shape;
using testing::Streams;
using testing::ThreadFor;

constexpr int32_t kSinks = 4;
constexpr int32_t kRecent = 40;

size_t z(int64_t n) { return static_cast<size_t>(n); }

const Shape kShapes[] = {{"gqa", 6, 2, 64}, {"mqa", 5, 1, 80}, {"odd", 4, 2, 33}};

CacheOptions options_of(const std::string& format, int32_t keep) {
  CacheOptions options;
  options.select = "sketch";
  options.format = format;
  options.recent = kRecent;
  options.select_params.keep = Keep{keep, 0};
  options.select_params.full_layers = {0};
  return options;
}

// A sketch of the candidates of a layer, made at once from the rows that it holds.
KeySketch fresh_sketch(const LayerCache& rows) {
  const LayerGeometry& g = rows.rows().geometry();
  const KeyIndex& held = *rows.index();
  KeySketch fresh;
  fresh.set_shape(held.first_slot(), g.n_kv_heads, g.head_dim_k);
  std::vector<float> keys(z(held.n_items()) * z(g.head_dim_k));
  for (int32_t head = 0; head < g.n_kv_heads; ++head) {
    for (int32_t i = 0; i < held.n_items(); ++i) {
      rows.read_key(held.first_slot() + i, head, keys.data() + ptrdiff_t{i} * g.head_dim_k);
    }
    fresh.settle(head, keys.data(), KeySketch::kSettling);
    fresh.grow(held.n_items());
    for (int32_t i = 0; i < held.n_items(); ++i) {
      fresh.set(i, 1, head, keys.data() + ptrdiff_t{i} * g.head_dim_k, best_kernels());
    }
  }
  return fresh;
}

std::vector<float> scores_of(const KeyIndex& index, const Shape& shape, const float* q) {
  SerialFor serial;
  IndexScratch scratch;
  std::vector<float> scores(z(index.n_items()));
  const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  index.score({q, shape.head_dim, shape.n_heads, scale}, best_kernels(), serial, scratch, scores);
  return scores;
}

class SketchOf : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, SketchOf, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

// Of several streams, each layer for itself.
TEST_P(SketchOf, ReadsSinksTheBestTokensAndTheNewest) {
  const Shape& shape = GetParam();
  ThreadFor threads(3);
  Streams run(shape, options_of("f16", 50), {300, 517, 120}, 3, threads);
  for (int32_t step = 0; step < 20; ++step) {
    run.decode();
    for (int32_t s = 0; s < 3; ++s) {
      const int32_t n = run.n_seen(s);
      const int32_t last = n - kRecent;
      for (const int32_t layer : {1, 2}) {
        const LayerCache& rows = *run.cache().find(layer, s);
        ASSERT_EQ(rows.index()->n_items(), last - kSinks);
        const auto scores = scores_of(fresh_sketch(rows), shape, run.query(layer, n - 1));
        std::vector<int32_t> chosen;
        top_k(scores, 50, chosen);
        std::vector<int32_t> tokens{0, 1, 2, 3};
        for (const int32_t i : chosen) tokens.push_back(kSinks + i);
        for (int32_t t = last; t < n; ++t) tokens.push_back(t);
        // f32 sums of unit normals, in another order than in double.
        EXPECT_LT(run.error(layer, s, tokens), 2e-5) << "layer " << layer << " stream " << s;
      }
    }
    for (int32_t s = 0; s < 3; ++s) run.end(s, true);
  }
}

// Sketches are of the rows that a step could read: those that were demoted as their format gives
// them, and none of a row that left.
TEST(Sketch, IsOfTheRowsThatAreThere) {
  SerialFor serial;
  const Shape shape{"gqa", 6, 2, 64};
  for (const char* policy : {"none", "window", "random"}) {
    for (const char* format : {"f16", "int8", "k5v4", "kivi2", "residual"}) {
      CacheOptions options = options_of(format, 64);
      options.policy = policy;
      if (options.policy != "none") options.params.budget = 333;
      Streams run(shape, options, {500}, 2, serial);
      run.end(0, true);  // demotes
      for (int32_t step = 0; step < 12; ++step) {
        run.decode();
        const LayerCache& rows = *run.cache().find(1, 0);
        const float* q = run.query(1, run.n_seen(0) - 1);
        ASSERT_GT(rows.index()->n_items(), 64) << policy << " " << format;
        ASSERT_EQ(scores_of(*rows.index(), shape, q), scores_of(fresh_sketch(rows), shape, q))
            << policy << " " << format << " step " << step;
        run.end(0, true);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir
