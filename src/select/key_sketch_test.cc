// Sketches of keys: scores against the same rounding in double, and against the keys themselves.
#include "select/key_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/half.h"
#include "select/selector.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

struct Shape {
  int32_t n_heads, n_kv_heads, head_dim;
};

const Shape kShapes[] = {{4, 4, 64}, {9, 3, 64}, {5, 1, 100}, {71, 1, 16}, {8, 2, 33}, {4, 2, 288}};

// Normal keys, and queries.
struct Keys {
  Keys(const Shape& of, int32_t n_tokens, uint32_t seed, float mean = 0)
      : shape(of),
        n(n_tokens),
        keys(z(of.n_kv_heads) * z(n_tokens) * z(of.head_dim)),
        q(z(of.n_heads) * z(of.head_dim)) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (float& x : keys) x = normal(generator) + mean;
    for (float& x : q) x = normal(generator);
  }

  float* key(int32_t token, int32_t head) {
    return keys.data() + (ptrdiff_t{head} * n + token) * shape.head_dim;
  }
  KeyQueries queries() const { return {q.data(), shape.head_dim, shape.n_heads, 0.25F}; }

  void fill(KeySketch& sketch, int32_t from, const KvKernels& kernels) {
    for (int32_t head = 0; from == 0 && head < shape.n_kv_heads; ++head) {
      sketch.settle(head, key(0, head), std::min(n, KeySketch::kSettling));
    }
    sketch.grow(n);
    for (int32_t token = from; token < n; ++token) {
      for (int32_t head = 0; head < shape.n_kv_heads; ++head) {
        sketch.set(token, 1, head, key(token, head), kernels);
      }
    }
  }

  double exact(int32_t h, int32_t token) {
    double dot = 0;
    const float* k = key(token, h / (shape.n_heads / shape.n_kv_heads));
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      dot += double{q[z(h * shape.head_dim + d)]} * double{k[d]};
    }
    return dot * 0.25;
  }

  Shape shape;
  int32_t n;
  std::vector<float> keys, q;
};

std::vector<float> scores_of(const KeySketch& sketch, const KeyQueries& queries,
                             const KvKernels& kernels) {
  SerialFor serial;
  IndexScratch scratch;
  std::vector<float> scores(z(sketch.n_items()));
  sketch.score(queries, kernels, serial, scratch, scores);
  EXPECT_LE(static_cast<int64_t>(scratch.bytes()),
            sketch.most_scratch(sketch.n_items(), queries.n_heads, 288));
  return scores;
}

// A key as the header says: mean off, turned, four levels of one step.
std::vector<double> sketched(Keys& keys, int32_t token, int32_t head) {
  const int32_t dim = keys.shape.head_dim;
  std::vector<float> key(z(dim));
  for (int32_t d = 0; d < dim; ++d) {
    double mean = 0;
    for (int32_t t = 0; t < KeySketch::kSettling; ++t) mean += double{keys.key(t, head)[d]};
    key[z(d)] = keys.key(token, head)[d] - static_cast<float>(mean / KeySketch::kSettling);
  }
  best_kernels().turn_row(key.data(), dim);
  double sum = 0;
  for (const float x : key) sum += double{x} * double{x};
  const float step =
      half_to_float(float_to_half(0.9957F * static_cast<float>(std::sqrt(sum / dim))));
  std::vector<double> levels;
  for (const float x : key) {
    levels.push_back((x >= step ? 1.5 : x >= 0 ? .5 : x >= -step ? -.5 : -1.5) * double{step});
  }
  return levels;
}

TEST(KeySketch, ScoresAreThoseOfRoundedKeysInDouble) {
  for (const Shape& shape : kShapes) {
    Keys keys(shape, 150, 1);
    std::vector<std::vector<double>> logits(z(shape.n_heads));
    std::vector<double> allowed(z(shape.n_heads));
    for (int32_t h = 0; h < shape.n_heads; ++h) {
      std::vector<float> q(keys.q.begin() + h * shape.head_dim,
                           keys.q.begin() + (h + 1) * shape.head_dim);
      best_kernels().turn_row(q.data(), shape.head_dim);
      double most = 0;  // of what two channels reach
      for (int32_t d = 0; d < shape.head_dim; d += 2) {
        const float next = d + 1 < shape.head_dim ? q[z(d + 1)] : 0;
        most = std::max(most, double{std::abs(q[z(d)])} + double{std::abs(next)});
      }
      for (int32_t t = 0; t < keys.n; ++t) {
        const auto key = sketched(keys, t, h / (shape.n_heads / shape.n_kv_heads));
        double dot = 0, step = std::abs(key[0]);
        for (const double x : key) step = std::max(step, std::abs(x));
        for (size_t d = 0; d < key.size(); ++d) dot += double{q[d]} * key[d];
        logits[z(h)].push_back(dot * 0.25);
        // Each table entry is half a step of the tables off at most; step is at most twice as large
        // as the key's own.
        const int32_t n_tables = shape.head_dim / 2 + 1;
        allowed[z(h)] = std::max(allowed[z(h)], 0.25 * step * 3 * most / 127 / 2 * n_tables);
      }
    }
    std::vector<double> expected(z(keys.n), -1e300);
    for (const auto& of_head : logits) {
      double sum = 0;
      for (const double x : of_head) sum += std::exp(x);
      for (size_t t = 0; t < expected.size(); ++t) {
        expected[t] = std::max(expected[t], of_head[t] - std::log(sum));
      }
    }
    const double error = 2 * *std::max_element(allowed.begin(), allowed.end());
    for (const KvKernels* kernels : supported_kernels()) {
      KeySketch sketch;
      sketch.set_shape(4, shape.n_kv_heads, shape.head_dim);
      keys.fill(sketch, 0, *kernels);
      const auto scores = scores_of(sketch, keys.queries(), *kernels);
      double mean_error = 0;
      for (size_t t = 0; t < scores.size(); ++t) {
        ASSERT_NEAR(double{scores[t]}, expected[t], error)
            << kernels->name << " " << shape.head_dim;
        mean_error += std::abs(double{scores[t]} - expected[t]) / static_cast<double>(keys.n);
      }
      EXPECT_LT(mean_error, error / 4);  // errors of tables cancel for the most part
    }
  }
}

// Four levels leave .1188 of the variance of normal values (Max, 1960): products with the key and
// with its sketch go together as sqrt(1 - .1188).
TEST(KeySketch, GoesWithTheKeys) {
  Keys keys({1, 1, 128}, 4000, 3);
  KeySketch sketch;
  sketch.set_shape(0, 1, 128);
  keys.fill(sketch, 0, best_kernels());
  const auto scores = scores_of(sketch, keys.queries(), best_kernels());
  double n = keys.n, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (int32_t t = 0; t < keys.n; ++t) {
    const double a = keys.exact(0, t), b = scores[z(t)];
    x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
  }
  const double correlation = (n * xy - x * y) / std::sqrt((n * xx - x * x) * (n * yy - y * y));
  EXPECT_NEAR(correlation, std::sqrt(1 - .1188), .01);
}

// What all keys have in common takes nothing from what tells them apart.
TEST(KeySketch, AMeanOfTheKeysChangesLittle) {
  Keys keys({4, 2, 64}, 500, 5), shifted({4, 2, 64}, 500, 5, 30);
  for (int32_t h = 0; h < 4; ++h) {  // one that is not even in all channels
    for (int32_t t = 0; t < 500; ++t) shifted.key(t, h / 2)[7] += 100;
  }
  KeySketch a, b;
  a.set_shape(0, 2, 64);
  b.set_shape(0, 2, 64);
  keys.fill(a, 0, best_kernels());
  shifted.fill(b, 0, best_kernels());
  const auto of_a = scores_of(a, keys.queries(), best_kernels());
  const auto of_b = scores_of(b, keys.queries(), best_kernels());
  int32_t differ = 0;  // levels next to a threshold may round to the other side
  for (size_t t = 0; t < of_a.size(); ++t) differ += std::abs(of_a[t] - of_b[t]) > .05F ? 1 : 0;
  EXPECT_LT(differ, 5);
}

TEST(KeySketch, HeadsThatAreNotFiniteHaveNoSay) {
  Keys keys({4, 2, 64}, 200, 7);
  KeySketch sketch;
  sketch.set_shape(0, 2, 64);
  keys.key(150, 1)[3] = std::numeric_limits<float>::quiet_NaN();  // counts as 0
  keys.key(151, 1)[3] = std::numeric_limits<float>::infinity();
  keys.fill(sketch, 0, best_kernels());
  KeyQueries one = keys.queries();
  one.n_heads = 2;  // heads of the first KV head
  Keys two({2, 1, 64}, 200, 7);
  std::copy_n(keys.key(0, 0), 200 * 64, two.key(0, 0));
  KeySketch alone;
  alone.set_shape(0, 1, 64);
  two.fill(alone, 0, best_kernels());
  const auto expected = scores_of(alone, one, best_kernels());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38F}) {
    keys.q[z(2 * 64 + 5)] = keys.q[z(3 * 64 + 9)] = bad;
    EXPECT_EQ(scores_of(sketch, keys.queries(), best_kernels()), expected) << bad;
  }
  for (const float tiny : {0.0F, 1e-45F, 1e-39F}) {
    std::fill(keys.q.begin(), keys.q.end(), tiny);
    for (const float score : scores_of(sketch, keys.queries(), best_kernels())) {
      EXPECT_NEAR(score, -std::log(200.0F), 1e-4) << tiny;
    }
  }
}

TEST(KeySketch, ForgetsFromTheFirstRowThatMovedAndCountsItsBytes) {
  const Shape shape{4, 2, 64};
  Keys before(shape, 200, 1), after(shape, 200, 2);
  KeySketch sketch, fresh;
  sketch.set_shape(4, 2, 64);
  before.fill(sketch, 0, best_kernels());
  // Four chunks of 64: 16 bytes and a step for each key and head.
  const size_t chunk = size_t{2} * 64 * 18 + 64;
  EXPECT_GE(sketch.bytes(), 4 * chunk + 2 * 64 * sizeof(float));
  EXPECT_LE(sketch.bytes(), 4 * (chunk + 64 + sizeof(std::vector<std::byte>)) +
                                2 * 64 * sizeof(float) + sizeof(sketch));
  EXPECT_LE(4 * sketch.chunk_bytes(2, 64) + sketch.fixed_bytes(2, 64),
            static_cast<int64_t>(sketch.bytes()));
  sketch.forget_from(4 + 77);
  EXPECT_EQ(sketch.n_items(), 77);
  for (int32_t head = 0; head < 2; ++head) {
    std::copy_n(before.key(0, head), 77 * 64, after.key(0, head));
  }
  after.fill(sketch, 77, best_kernels());
  fresh.set_shape(4, 2, 64);
  after.fill(fresh, 0, best_kernels());
  EXPECT_EQ(scores_of(sketch, after.queries(), best_kernels()),
            scores_of(fresh, after.queries(), best_kernels()));
  sketch.clear();
  EXPECT_EQ(sketch.bytes(), sizeof(sketch));
}

TEST(Sketch, TakesTheBestTokens) {
  SerialFor serial;
  Keys keys({9, 3, 64}, 3000, 9);
  KeySketch sketch;
  sketch.set_shape(0, 3, 64);
  keys.fill(sketch, 0, best_kernels());
  SelectParams params;
  params.keep = Keep{100, 0};
  auto selector = make_selector("sketch", params);
  ASSERT_TRUE(selector);
  SelectInput input;
  input.n = keys.n;
  input.n_heads = 9;
  input.index = &sketch;
  input.queries = keys.queries();
  SelectScratch scratch;
  std::vector<int32_t> chosen;
  selector.value()->choose(input, best_kernels(), serial, scratch, chosen);
  ASSERT_EQ(chosen.size(), 100U);
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
  const auto scores = scores_of(sketch, keys.queries(), best_kernels());
  std::vector<float> sorted = scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (const int32_t t : chosen) EXPECT_GE(scores[z(t)], sorted[99]);
}

TEST(Sketch16, TakesThePagesOfTheBestTokens) {
  SerialFor serial;
  Keys keys({9, 3, 64}, 3200, 9);
  KeySketch sketch;
  sketch.set_shape(0, 3, 64);
  keys.fill(sketch, 0, best_kernels());
  SelectParams params;
  params.keep = Keep{150, 0};
  auto selector = make_selector("sketch16", params);
  ASSERT_TRUE(selector);
  SelectInput input;
  input.n = keys.n;
  input.n_heads = 9;
  input.index = &sketch;
  input.queries = keys.queries();
  SelectScratch scratch;
  std::vector<int32_t> chosen;
  selector.value()->choose(input, best_kernels(), serial, scratch, chosen);
  ASSERT_EQ(chosen.size(), 160U);  // ten pages
  const auto scores = scores_of(sketch, keys.queries(), best_kernels());
  std::vector<float> pages;
  for (auto at = scores.begin(); at != scores.end(); at += 16) {
    pages.push_back(*std::max_element(at, at + 16));
  }
  std::vector<float> sorted = pages;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_EQ(chosen[i] % 16, static_cast<int32_t>(i % 16));
    EXPECT_GE(pages[z(chosen[i] / 16)], sorted[9]);
  }
}

}  // namespace
}  // namespace kvasir
