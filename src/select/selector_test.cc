// Methods of selection against plain double arithmetic, and what they refuse.
#include "select/selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "select/full_layers.h"
#include "select/top_k.h"

namespace kvasir {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

std::vector<float> normals(size_t n, uint32_t seed, float deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& x : values) x = normal(generator);
  return values;
}

std::unique_ptr<Selector> made(const char* name, const SelectParams& params = {}) {
  auto selector = make_selector(name, params);
  EXPECT_TRUE(selector) << selector.error();
  return std::move(selector.value());
}

SelectParams keep_of(int32_t tokens, double percent = 0) {
  SelectParams params;
  params.keep = Keep{tokens, percent};
  return params;
}

TEST(TopK, IsTheHeadOfASortAndTakesTheNewerOnTies) {
  for (const int32_t n : {1, 2, 15, 500, 3000}) {
    std::vector<float> scores = normals(z(n), 3);
    for (int32_t i = 0; i < n; i += 3) scores[z(i)] = std::round(scores[z(i)]);  // many ties
    for (int32_t i = 0; i < n; i += 7) scores[z(i)] = i % 2 == 0 ? kMinusInf : -0.0F;
    for (const int32_t k : {0, 1, n / 3, n - 1, n}) {
      std::vector<int32_t> order(z(n));
      for (int32_t i = 0; i < n; ++i) order[z(i)] = i;
      std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return scores[z(a)] > scores[z(b)] || (scores[z(a)] == scores[z(b)] && a > b);
      });
      order.resize(z(k));
      std::sort(order.begin(), order.end());
      std::vector<int32_t> chosen;
      top_k(scores, k, chosen);
      EXPECT_EQ(chosen, order) << n << " " << k;
    }
  }
}

TEST(TopK, NaNIsTheLeast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<int32_t> chosen;
  top_k(std::vector<float>{nan, kMinusInf, -nan, 1}, 2, chosen);
  EXPECT_EQ(chosen, (std::vector<int32_t>{1, 3}));
}

TEST(Keep, CountsTokensOrAShareOfTheCandidates) {
  EXPECT_EQ((Keep{7, 0}.of(100)), 7);
  EXPECT_EQ((Keep{7, 0}.of(5)), 5);
  EXPECT_EQ((Keep{0, 30}.of(100)), 30);
  EXPECT_EQ((Keep{0, 30}.of(99)), 29);
  EXPECT_EQ((Keep{0, 1}.of(5)), 1);
  EXPECT_EQ((Keep{0, 1}.of(0)), 0);
  EXPECT_EQ(Keep{}.of(1000), 300);
}

// The largest softmax over the heads, of candidates alone.
std::vector<double> omnikv_scores(const std::vector<float>& logits, int32_t n_heads, int32_t n) {
  std::vector<double> scores(z(n), 0.0);
  for (int32_t h = 0; h < n_heads; ++h) {
    double sum = 0;
    for (int32_t i = 0; i < n; ++i) sum += std::exp(double{logits[z(h * n + i)]});
    for (int32_t i = 0; i < n; ++i) {
      scores[z(i)] = std::max(scores[z(i)], std::exp(double{logits[z(h * n + i)]}) / sum);
    }
  }
  return scores;
}

TEST(OmniKv, ChoosesTheLargestSoftmaxOverHeads) {
  for (const int32_t n_heads : {1, 4, 9}) {
    const int32_t n = 9000;
    std::vector<float> logits = normals(z(n_heads * n), 5, 2);
    // A head whose logits are all higher has no say for that: softmax comes before the maximum.
    for (int32_t i = 0; i < n; ++i) logits[z(i)] += 6;
    const std::vector<double> scores = omnikv_scores(logits, n_heads, n);
    for (const KvKernels* kernels : supported_kernels()) {
      SelectInput input;
      input.n = n;
      input.n_heads = n_heads;
      input.logits = logits.data();
      input.logits_head = n;
      SelectScratch scratch;
      SerialFor serial;
      std::vector<int32_t> chosen;
      made("omnikv", keep_of(1000))->choose(input, *kernels, serial, scratch, chosen);
      ASSERT_EQ(chosen.size(), 1000U);
      std::vector<double> sorted = scores;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      std::vector<bool> is_chosen(z(n));
      for (const int32_t i : chosen) is_chosen[z(i)] = true;
      for (int32_t i = 0; i < n; ++i) {  // but for scores that f32 cannot tell apart
        if (scores[z(i)] > sorted[999] * (1 + 1e-5)) {
          ASSERT_TRUE(is_chosen[z(i)]);
        }
        if (scores[z(i)] < sorted[999] * (1 - 1e-5)) {
          ASSERT_FALSE(is_chosen[z(i)]);
        }
      }
      EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    }
  }
}

TEST(OmniKv, HiddenTokensAreChosenLastAndNaNDoesNotSpread) {
  std::vector<float> logits = {0, 1, kMinusInf, 2, 3, std::nanf(""), 5, 5, 5, 5};
  SelectInput input;
  input.n = 5;
  input.n_heads = 2;
  input.logits = logits.data();
  input.logits_head = 5;
  SelectScratch scratch;
  SerialFor serial;
  std::vector<int32_t> chosen;
  made("omnikv", keep_of(4))->choose(input, best_kernels(), serial, scratch, chosen);
  EXPECT_EQ(chosen, (std::vector<int32_t>{0, 1, 3, 4}));
}

std::string roles(const Selector& selector, int32_t n_layers) {
  std::string text;
  for (int32_t l = 0; l < n_layers; ++l) {
    text += "DOFC"[static_cast<size_t>(selector.role(l, n_layers))];
  }
  return text;
}

TEST(Roles, FollowFromTheFullLayers) {
  EXPECT_EQ(usual_full_layers(32), (std::vector<int32_t>{0, 1, 2, 8, 18}));
  EXPECT_EQ(usual_full_layers(30), (std::vector<int32_t>{0, 1, 2, 7, 16}));
  EXPECT_EQ(usual_full_layers(4), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(usual_full_layers(1), (std::vector<int32_t>{0}));
  EXPECT_EQ(roles(*made("omnikv"), 30), "DDOFFFFOFFFFFFFFOFFFFFFFFFFFFF");
  EXPECT_EQ(roles(*made("quest"), 6), "DDCCCC");
  EXPECT_EQ(roles(*made("dense"), 4), "DDDD");
  SelectParams params;
  params.full_layers = {0, 3, 5};
  EXPECT_EQ(roles(*made("omnikv", params), 6), "OFFOFD");
  EXPECT_EQ(roles(*made("quest", params), 6), "DCCDCD");
  EXPECT_TRUE(made("omnikv", params)->check_layers(6));
  EXPECT_EQ(made("omnikv", params)->check_layers(5).error(),
            "--kv-full-layers 0,3,5: the cache has 5 layers, allowed are 0 to 4");
}

TEST(Registry, RefusesInOneLine) {
  EXPECT_EQ(selector_names(),
            (std::vector<std::string_view>{"dense", "omnikv", "quest", "sketch", "sketch16"}));
  EXPECT_EQ(
      make_selector("top", {}).error(),
      "--kv-select top: no such selection; allowed are dense, omnikv, quest, sketch, sketch16");
  EXPECT_EQ(make_selector("dense", keep_of(5)).error(),
            "--kv-keep: a step reads every stored token (--kv-select dense); choose omnikv, "
            "quest, sketch or sketch16");
  SelectParams params;
  params.full_layers = {1, 2};
  EXPECT_EQ(make_selector("omnikv", params).error(),
            "--kv-full-layers 1,2: layer 0 must be among them with --kv-select omnikv");
  EXPECT_TRUE(make_selector("quest", params));
}

TEST(Sketch, ReadsAllOfFewCandidates) {
  EXPECT_EQ(made("sketch", keep_of(0, 30))->n_chosen(63), 63);
  EXPECT_EQ(made("sketch", keep_of(0, 30))->n_chosen(64), 19);
  EXPECT_EQ(made("sketch", keep_of(7))->n_chosen(1000), 7);
}

TEST(Quest, CountsWholePages) {
  EXPECT_EQ(made("quest", keep_of(1))->n_chosen(160), 16);
  EXPECT_EQ(made("quest", keep_of(33))->n_chosen(160), 48);
  EXPECT_EQ(made("quest", keep_of(0, 30))->n_chosen(160), 48);
  EXPECT_EQ(made("quest", keep_of(1000))->n_chosen(160), 160);
}

}  // namespace
}  // namespace kvasir
