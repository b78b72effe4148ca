// The latent tier: with every axis rows come back, with fewer the nearest that the axes give.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cache/latent_tier.h"
#include "cache/test_rows.h"

namespace kvasir {
namespace {

using testing::Sequence;
using testing::ThreadFor;

constexpr LayerGeometry kGeometry{2, 32, 16};
constexpr int32_t kTokens = 300;

class Text {
 public:
  explicit Text(int32_t percent)
      : f16_(kGeometry, best_kernels(), arena_), tier_(kGeometry, percent, best_kernels(), arena_) {
    RopeSpec spec;
    for (int32_t i = 0; i < 16; ++i) spec.frequencies.push_back(std::pow(100.0, -i / 16.0));
    rope_ = std::make_unique<RopeTable>(spec);
    EXPECT_TRUE(f16_.reserve(0, kTokens));
    f16_.store_k(0, {rows_.k_row(0), kGeometry.width_k(), kTokens});
    f16_.store_v(0, {rows_.v_row(0), kGeometry.width_v(), kTokens});
    tier_.set_rope(rope_.get());
    std::iota(positions_.begin(), positions_.end(), 0);
    ThreadFor threads(3);
    EXPECT_TRUE(tier_.append(
        {f16_, 4, 256, std::span(positions_).subspan(4, 256), std::span(positions_).first(4)},
        threads, scratch_));
  }

  // Root of the mean squared difference over that of the values.
  double error(const std::vector<int32_t>& token_of_slot) const {
    double sum = 0;
    double all = 0;
    std::vector<float> row(kGeometry.head_dim_k);
    for (size_t slot = 0; slot < token_of_slot.size(); ++slot) {
      const int32_t token = token_of_slot[slot];
      for (int32_t h = 0; h < kGeometry.n_kv_heads; ++h) {
        tier_.read_k(h, static_cast<int32_t>(slot), 1, &token, row.data());
        add(row.data(), rows_.k_row(token) + ptrdiff_t{h} * kGeometry.head_dim_k,
            kGeometry.head_dim_k, sum, all);
        tier_.read_v(h, static_cast<int32_t>(slot), 1, row.data());
        add(row.data(), rows_.v_row(token) + ptrdiff_t{h} * kGeometry.head_dim_v,
            kGeometry.head_dim_v, sum, all);
      }
    }
    return std::sqrt(sum / all);
  }

  LatentTier& tier() { return tier_; }

 private:
  static void add(const float* a, const float* b, int32_t n, double& sum, double& all) {
    for (int32_t d = 0; d < n; ++d) {
      sum += std::pow(double{a[d]} - double{b[d]}, 2);
      all += std::pow(double{b[d]}, 2);
    }
  }

  PageArena arena_;
  F16Tier f16_;
  LatentTier tier_;
  std::unique_ptr<RopeTable> rope_;
  Sequence rows_ = Sequence::random(kGeometry, kTokens, 9);
  std::vector<int32_t> positions_ = std::vector<int32_t>(kTokens);
  EncodeScratch scratch_;
};

std::vector<int32_t> tokens_from(int32_t first, int32_t n, int32_t step = 1) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = first + i * step;
  return tokens;
}

TEST(LatentTier, EveryAxisRestoresRows) {
  Text text(100);
  EXPECT_LT(text.error(tokens_from(4, 256)), 1e-3);
}

// Random rows vary along all axes alike: half of them leave half of the energy.
TEST(LatentTier, FewerAxesLeaveTheRest) {
  Text half(50);
  const double error = half.error(tokens_from(4, 256));
  EXPECT_GT(error, 0.5);
  EXPECT_LT(error, 0.75);
}

TEST(LatentTier, SurvivorsMoveAndCopiesAreTheSame) {
  Text text(100);
  std::vector<int32_t> survivors;
  for (int32_t slot = 10; slot < 256; slot += 2) survivors.push_back(slot);
  text.tier().keep(10, survivors, 0);
  std::vector<int32_t> tokens = tokens_from(4, 10);
  for (const int32_t slot : survivors) tokens.push_back(4 + slot);
  ASSERT_EQ(text.tier().n_rows(), static_cast<int32_t>(tokens.size()));
  EXPECT_LT(text.error(tokens), 1e-3);
  PageArena arena;
  LatentTier copy(kGeometry, 100, best_kernels(), arena);
  ASSERT_TRUE(copy.copy_from(text.tier()));
  std::vector<float> a(kGeometry.head_dim_v);
  std::vector<float> b(kGeometry.head_dim_v);
  for (int32_t slot = 0; slot < copy.n_rows(); ++slot) {
    text.tier().read_v(1, slot, 1, a.data());
    copy.read_v(1, slot, 1, b.data());
    ASSERT_EQ(a, b);
  }
  text.tier().keep(0, {}, 0);
  EXPECT_EQ(text.tier().bytes(), 0U);
}

}  // namespace
}  // namespace kvasir
