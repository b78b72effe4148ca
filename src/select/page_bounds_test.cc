// Bounds of pages: never below a true product, and the pages that quest takes are the best.
#include "select/page_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/half.h"
#include "select/selector.h"

namespace kvasir {
namespace {

constexpr int32_t kTokens = PageBounds::kTokens;

size_t z(int64_t n) { return static_cast<size_t>(n); }

struct Shape {
  int32_t n_heads, n_kv_heads, head_dim;
};

// Keys of random pages, and queries.
class Keys {
 public:
  Keys(const Shape& shape, int32_t n_pages, uint32_t seed)
      : shape_(shape),
        n_pages_(n_pages),
        keys_(z(int64_t{n_pages} * kTokens * shape.n_kv_heads * shape.head_dim)),
        q_(z(int64_t{shape.n_heads} * shape.head_dim)) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (float& x : keys_) x = normal(generator);
    for (float& x : q_) x = normal(generator);
  }

  const float* q() const { return q_.data(); }

  const float* key(int32_t token, int32_t head) const {
    return keys_.data() + (ptrdiff_t{token} * shape_.n_kv_heads + head) * shape_.head_dim;
  }

  void fill(PageBounds& bounds, int32_t from, const KvKernels& kernels) const {
    bounds.grow(n_pages_);
    for (int32_t page = from; page < n_pages_; ++page) {
      for (int32_t head = 0; head < shape_.n_kv_heads; ++head) {
        const auto [largest, smallest] = extremes(page, head);
        bounds.set_bounds(page, head, largest.data(), smallest.data(), kernels);
      }
    }
  }

  // In double: the bound of a page, and the largest product of its tokens.
  double bound(int32_t page) const {
    double best = -1e30;
    for (int32_t h = 0; h < shape_.n_heads; ++h) {
      const auto [largest, smallest] = extremes(page, kv_head(h));
      double sum = 0;
      for (int32_t d = 0; d < shape_.head_dim; ++d) {
        const double q = q_[z(h * shape_.head_dim + d)];
        sum += std::max(q * largest[z(d)], q * smallest[z(d)]);
      }
      best = std::max(best, sum);
    }
    return best;
  }
  double product(int32_t page) const {
    double best = -1e30;
    for (int32_t h = 0; h < shape_.n_heads; ++h) {
      for (int32_t i = 0; i < kTokens; ++i) {
        const float* k = key(page * kTokens + i, kv_head(h));
        double dot = 0;
        for (int32_t d = 0; d < shape_.head_dim; ++d) {
          dot += double{q_[z(h * shape_.head_dim + d)]} * k[d];
        }
        best = std::max(best, dot);
      }
    }
    return best;
  }

 private:
  int32_t kv_head(int32_t h) const { return h / (shape_.n_heads / shape_.n_kv_heads); }
  std::pair<std::vector<float>, std::vector<float>> extremes(int32_t page, int32_t head) const {
    std::vector<float> largest(z(shape_.head_dim), -1e30F), smallest(z(shape_.head_dim), 1e30F);
    for (int32_t i = 0; i < kTokens; ++i) {
      const float* k = key(page * kTokens + i, head);
      for (int32_t d = 0; d < shape_.head_dim; ++d) {
        largest[z(d)] = std::max(largest[z(d)], k[d]);
        smallest[z(d)] = std::min(smallest[z(d)], k[d]);
      }
    }
    return {largest, smallest};
  }

  Shape shape_;
  int32_t n_pages_;
  std::vector<float> keys_, q_;
};

const Shape kShapes[] = {{4, 4, 64}, {9, 3, 64}, {5, 1, 100}, {71, 1, 16}, {8, 2, 33}, {4, 2, 288}};

TEST(PageBounds, IsAboveEachProductAndCloseToTheBoundInDouble) {
  SerialFor serial;
  for (const Shape& shape : kShapes) {
    for (const KvKernels* kernels : supported_kernels()) {
      const int32_t n_pages = 150;
      const Keys keys(shape, n_pages, 1);
      PageBounds bounds;
      bounds.set_shape(4, shape.n_kv_heads, shape.head_dim);
      keys.fill(bounds, 0, *kernels);
      IndexScratch scratch;
      std::vector<float> scores(z(n_pages));
      bounds.score({keys.q(), shape.head_dim, shape.n_heads}, *kernels, serial, scratch, scores);
      for (int32_t page = 0; page < n_pages; ++page) {
        // f32 sums of 2 head_dim products.
        const double error = 1e-5 * shape.head_dim;
        EXPECT_GE(scores[z(page)], keys.product(page) - error);
        const double bound = keys.bound(page);
        EXPECT_GE(scores[z(page)], bound - error);
        EXPECT_LE(scores[z(page)], bound + error + 2e-3 * bound);  // outwards to f16
      }
    }
  }
}

TEST(PageBounds, RoundsOutwards) {
  PageBounds bounds;
  bounds.set_shape(0, 1, 4);
  bounds.grow(1);
  // Between two binary16; one above the largest subnormal; zero; far out.
  const float largest[] = {1.0004F, -1.0004F, 0, 3e-8F}, smallest[] = {-1.0004F, -1.0006F, 0, 0};
  bounds.set_bounds(0, 0, largest, smallest, best_kernels());
  SerialFor serial;
  IndexScratch scratch;
  std::vector<float> score(1);
  for (int32_t d = 0; d < 4; ++d) {
    std::vector<float> q(4, 0.0F);
    for (const float sign : {1.0F, -1.0F}) {
      q[z(d)] = sign;
      bounds.score({q.data(), 4, 1}, best_kernels(), serial, scratch, score);
      EXPECT_GE(score[0], sign > 0 ? largest[d] : -smallest[d]) << d;
      EXPECT_LE(score[0], (sign > 0 ? largest[d] : -smallest[d]) + 1e-3F) << d;
    }
  }
}

TEST(PageBounds, ForgetsFromTheFirstRowThatMoved) {
  const Shape shape{4, 2, 32};
  const Keys before(shape, 100, 1), after(shape, 100, 2);
  PageBounds bounds;
  bounds.set_shape(4, 2, 32);
  before.fill(bounds, 0, best_kernels());
  bounds.forget_from(4 + 70 * kTokens + 3);
  EXPECT_EQ(bounds.n_items(), 70);
  const size_t bytes = bounds.bytes();
  after.fill(bounds, 70, best_kernels());
  EXPECT_EQ(bounds.bytes(), bytes);
  IndexScratch scratch;
  std::vector<float> scores(100);
  SerialFor serial;
  bounds.score({before.q(), 32, 4}, best_kernels(), serial, scratch, scores);
  EXPECT_NEAR(scores[69], before.bound(69), 0.1);
  bounds.score({after.q(), 32, 4}, best_kernels(), serial, scratch, scores);
  EXPECT_NEAR(scores[70], after.bound(70), 0.1);
  bounds.forget_from(2);
  EXPECT_EQ(bounds.n_items(), 0);
  bounds.grow(3);
  bounds.set_shape(5, 2, 32);  // pages start elsewhere
  EXPECT_EQ(bounds.n_items(), 0);
}

TEST(PageBounds, CountsWhatItAllocates) {
  PageBounds bounds;
  bounds.set_shape(0, 3, 64);
  bounds.grow(65);
  // Two chunks of 64 pages: largest and smallest as f16, and room to align.
  const size_t chunk = (size_t{3} * 64 * 128 + 32) * sizeof(uint16_t);
  EXPECT_GE(bounds.bytes(), 2 * chunk);
  EXPECT_LE(bounds.bytes(), 2 * chunk + 256 + sizeof(bounds));
  bounds.forget_from(0);
  bounds.trim();
  EXPECT_EQ(bounds.bytes(), sizeof(bounds));
}

TEST(Quest, TakesTheBestPages) {
  SerialFor serial;
  for (const Shape& shape : kShapes) {
    const int32_t n_pages = 130;
    const Keys keys(shape, n_pages, 9);
    PageBounds bounds;
    bounds.set_shape(0, shape.n_kv_heads, shape.head_dim);
    keys.fill(bounds, 0, best_kernels());
    SelectParams params;
    params.keep = Keep{20 * kTokens, 0};
    auto selector = make_selector("quest", params);
    ASSERT_TRUE(selector);
    SelectInput input;
    input.n = n_pages * kTokens;
    input.n_heads = shape.n_heads;
    input.index = &bounds;
    input.queries = {keys.q(), shape.head_dim, shape.n_heads};
    SelectScratch scratch;
    std::vector<int32_t> chosen;
    selector.value()->choose(input, best_kernels(), serial, scratch, chosen);
    ASSERT_EQ(chosen.size(), z(20 * kTokens));
    std::vector<double> exact;
    for (int32_t page = 0; page < n_pages; ++page) exact.push_back(keys.bound(page));
    std::vector<double> sorted = exact;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double error = 1e-3 * std::abs(sorted[0]);  // of bounds rounded to f16
    for (size_t i = 0; i < chosen.size(); ++i) {
      ASSERT_EQ(chosen[i] % kTokens, static_cast<int32_t>(i) % kTokens);
      EXPECT_GE(exact[z(chosen[i] / kTokens)], sorted[19] - error);
    }
    for (int32_t page = 0; page < n_pages; ++page) {
      if (exact[z(page)] <= sorted[19] + error) continue;
      EXPECT_TRUE(std::binary_search(chosen.begin(), chosen.end(), page * kTokens)) << page;
    }
  }
}

}  // namespace
}  // namespace kvasir
