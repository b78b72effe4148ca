// The score of each method on examples worked out by hand; conf's are in conf_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "policy/policy.h"

namespace kvasir {
namespace {

using Floats = std::vector<float>;
using Positions = std::vector<int32_t>;

Policy made(const std::string& name, PolicyParams params = {}) {
  if (params.budget == 0 && params.budget_percent == 0) params.budget = 256;
  auto policy = make_policy(name, params);
  EXPECT_TRUE(policy) << policy.error();
  return std::move(policy.value());
}

/// Tokens of one layer with their state, shown mass and scored.
struct Layer {
  explicit Layer(const Policy& owner, Positions at)
      : policy(owner),
        positions(std::move(at)),
        state(positions.size() * static_cast<size_t>(owner.ranker->n_state()), 0.0F) {}

  void see(const Floats& mass, Mass::Kind kind = Mass::Kind::kStep, int32_t n_queries = 1,
           int32_t n_fresh = 0) {
    policy.ranker->observe({kind, mass, n_queries, n_fresh, step}, state);
    if (kind == Mass::Kind::kStep) ++step;
  }

  Floats scores(const KeyReader* keys = nullptr, int32_t layer = 0) {
    Floats out(positions.size(), -1.0F);
    Positions scratch(positions.size());
    Candidates candidates;
    candidates.positions = positions;
    candidates.state = state;
    candidates.scratch = scratch;
    candidates.layer = layer;
    candidates.step = step;
    candidates.newest = positions.empty() ? 0 : positions.back();
    candidates.keys = keys;
    policy.ranker->score(candidates, out);
    return out;
  }

  const Policy& policy;
  Positions positions;
  Floats state;
  int64_t step = 0;
};

void expect_near(const Floats& found, const Floats& expected, float tolerance = 1e-6F) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(Streaming, NewestFirstAndPositionsOfTheCache) {
  const Policy policy = made("streaming");
  EXPECT_TRUE(policy.positions_in_cache);
  EXPECT_FALSE(made("window").positions_in_cache);
  EXPECT_EQ(policy.sinks, 4);
  EXPECT_EQ(policy.protect, 0);
  expect_near(Layer(policy, {4, 9, 10}).scores(), {4, 9, 10});
}

TEST(Recency, NewestFirst) {
  const Policy policy = made("recency");
  EXPECT_EQ(policy.protect, 32);
  expect_near(Layer(policy, {5, 6, 90}).scores(), {5, 6, 90});
}

TEST(Attention, IsTheMovingAverageAlone) {
  PolicyParams params;
  params.lambda = 0.75;
  const Policy policy = made("attention", params);
  Layer layer(policy, {0, 1, 2});
  layer.see({0.5F, 0.3F, 0.2F}, Mass::Kind::kObserved, 32, 3);
  expect_near(layer.scores(), {0.5F, 0.3F, 0.2F});
  layer.see({0.1F, 0.7F, 0.2F});
  expect_near(layer.scores(), {0.4F, 0.4F, 0.2F});
  const auto lambda = made("attention");
  Layer initial(lambda, {0});
  initial.see({1.0F});
  expect_near(initial.scores(), {0.1F});  // 1 - 0.90
}

TEST(H2o, SumsAndByAge) {
  const Policy policy = made("h2o");
  EXPECT_TRUE(policy.needs().column_sums);
  EXPECT_EQ(policy.protect, 0);
  EXPECT_EQ(policy.protect_share, 0.5);
  Layer layer(policy, {0, 1, 2});
  layer.state = {2.0F, 0.0F, 0.0F};  // as a prompt's queries left it
  layer.see({0.5F, 0.3F, 0.2F});
  layer.see({0.1F, std::numeric_limits<float>::quiet_NaN(), 0.3F});
  expect_near(layer.scores(), {2.6F, 0.3F, 0.5F});
  PolicyParams by_age;
  by_age.by_age = true;
  const Policy aged = made("h2o", by_age);
  Layer other(aged, {0, 1, 2});
  other.see({0.6F, 0.3F, 0.2F});
  expect_near(other.scores(), {0.2F, 0.15F, 0.2F});  // seen by 3, 2 and 1 queries
}

TEST(H2o, ProtectReplacesTheRecentHalf) {
  PolicyParams params;
  params.protect = 7;
  EXPECT_EQ(made("h2o", params).protect, 7);
  EXPECT_EQ(made("h2o", params).protect_share, 0);
  params = {};
  params.budget = 9;
  EXPECT_TRUE(make_policy("h2o", params));
  params.budget = 8;
  EXPECT_EQ(make_policy("h2o", params).error(),
            "--kv-budget 8: allowed is 9 or more, that is twice --kv-sinks 4 + 1: half is for the "
            "newest tokens");
}

// The invariant that ties two methods: conf with alpha = 1, lambda -> 1 orders tokens as sums do.
TEST(H2o, DecodeSumsOrderAsConfWithoutForgetting) {
  PolicyParams params;
  params.alpha = 1;
  params.lambda = 1 - 1e-6;
  const Policy conf = made("conf", params);
  const Policy h2o = made("h2o");
  std::mt19937 random(3);
  std::exponential_distribution<float> draw(1);
  Layer a(conf, {}), b(h2o, {});
  for (int32_t step = 0; step < 50; ++step) {
    for (Layer* layer : {&a, &b}) {
      layer->positions.push_back(step);
      layer->state.push_back(0);
    }
    Floats mass(a.positions.size());
    for (float& m : mass) m = draw(random);
    a.see(mass, Mass::Kind::kStep, 1, 1);
    b.see(mass, Mass::Kind::kStep, 1, 1);
    const Floats x = a.scores(), y = b.scores();
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) {
        EXPECT_TRUE(x[i] > x[j] || y[i] <= y[j] * 1.001F);
      }
    }
  }
}

TEST(Scissorhands, CountsStepsAboveUniform) {
  const Policy policy = made("scissorhands");
  EXPECT_EQ(policy.protect, 10);
  Layer layer(policy, {0, 1, 2, 3});  // uniform: 0.25
  layer.see({0.25F, 0.24F, 0.5F, 0.01F});
  layer.see({0.30F, 0.30F, 0.4F, 0.00F});
  layer.see({0.10F, 0.10F, 0.8F, 0.00F});
  expect_near(layer.scores(), {2, 1, 3, 0});
}

TEST(Scissorhands, RemembersFourHundredSteps) {
  const Policy policy = made("scissorhands");
  Layer layer(policy, {0, 1});
  layer.see({1.0F, 0.0F});
  for (int step = 1; step < 400; ++step) layer.see({0.0F, 1.0F});
  expect_near(layer.scores(), {1, 399});
  layer.see({0.0F, 1.0F});  // the first step is forgotten
  expect_near(layer.scores(), {0, 400});
  layer.see({1.0F, 0.0F});
  expect_near(layer.scores(), {1, 399});
}

TEST(Scissorhands, APromptsWindowCountsAsItsQueries) {
  const Policy policy = made("scissorhands");
  Layer layer(policy, {0, 1});
  layer.see({0.6F, 0.4F}, Mass::Kind::kObserved, 32, 2);
  expect_near(layer.scores(), {32, 0});
  layer.see({0.4F, 0.6F});
  expect_near(layer.scores(), {32, 1});
}

TEST(Scissorhands, DropsHalfTheBudgetAtOnce) {
  PolicyParams params;
  params.budget = 101;
  const Policy policy = made("scissorhands", params);
  EXPECT_EQ(policy.budget->tokens({}, {0, 1, 101}), 101);
  EXPECT_EQ(policy.budget->tokens({}, {0, 1, 102}), 51);
  params.budget = 16;  // the floor is 4 + 10 + 1
  EXPECT_EQ(made("scissorhands", params).budget->tokens({}, {0, 1, 17}), 15);
}

TEST(SnapKv, PoolsThePrefixOverFiveNeighbours) {
  const Policy policy = made("snapkv");
  EXPECT_EQ(policy.protect, 32);
  EXPECT_EQ(policy.needs().observed_queries, 32);
  EXPECT_EQ(policy.needs().observe_every, 32);
  EXPECT_FALSE(policy.needs().step_mass);
  Layer layer(policy, {0, 1, 2, 3, 4, 5, 6, 7});
  layer.see({0.5F, 0, 0, 0, 0, 1.0F, 0.3F, 0.4F}, Mass::Kind::kObserved, 2, 8);
  // Two queries: the last two tokens are the window, neither pooled nor in the pool.
  expect_near(layer.scores(), {0.1F, 0.1F, 0.1F, 0.2F, 0.2F, 0.2F, 0.3F, 0.4F});
  layer.see({0, 0, 0, 0, 0, 0, 1.0F, 0.0F}, Mass::Kind::kObserved, 1, 0);
  expect_near(layer.scores(), {0, 0, 0, 0, 0.2F, 0.2F, 0.2F, 0.0F});
}

int32_t pyramid_at(const Policy& policy, int32_t n_tokens, int32_t layer, int32_t n_layers) {
  StepState step;
  step.n_tokens = n_tokens;
  return policy.budget->tokens(step, {layer, n_layers, 0});
}

TEST(PyramidKv, BudgetsByHand) {
  PolicyParams params;
  params.budget = 132;  // c = 100, min = 5, max = 195
  const Policy policy = made("pyramidkv", params);
  EXPECT_EQ(pyramid_at(policy, 1000, 0, 3), 227);
  EXPECT_EQ(pyramid_at(policy, 1000, 1, 3), 132);
  EXPECT_EQ(pyramid_at(policy, 1000, 2, 3), 37);
  EXPECT_EQ(pyramid_at(policy, 220, 0, 3), 220);  // max = n - w = 188, min = 12
  EXPECT_EQ(pyramid_at(policy, 220, 2, 3), 44);
  for (int32_t l = 0; l < 3; ++l) EXPECT_EQ(pyramid_at(policy, 199, l, 3), 132);
  EXPECT_EQ(pyramid_at(policy, 1000, 0, 1), 132);
}

TEST(PyramidKv, MeanIsTheBudgetAndEveryLayerHasRoom) {
  for (int32_t budget = 37; budget < 400; budget += 11) {
    PolicyParams params;
    params.budget = budget;
    const Policy policy = made("pyramidkv", params);
    for (const int32_t n_layers : {2, 3, 7, 30, 64}) {
      int64_t sum = 0;
      for (int32_t l = 0; l < n_layers; ++l) {
        const int32_t n = pyramid_at(policy, 4000, l, n_layers);
        EXPECT_GE(n, 37);
        EXPECT_TRUE(l == 0 || n <= pyramid_at(policy, 4000, l - 1, n_layers));
        sum += n;
      }
      EXPECT_LE(sum, int64_t{budget} * n_layers);
      EXPECT_GT(sum, int64_t{budget - 1} * n_layers);
    }
  }
}

TEST(Tova, IsTheNewestQueryAlone) {
  const Policy policy = made("tova");
  EXPECT_EQ(policy.protect, 0);
  EXPECT_EQ(policy.needs().observed_queries, 1);
  Layer layer(policy, {0, 1, 2});
  layer.see({0.5F, 0.3F, 0.2F}, Mass::Kind::kObserved, 1, 3);
  expect_near(layer.scores(), {0.5F, 0.3F, 0.2F});
  layer.see({0.1F, 0.2F, 0.7F});
  expect_near(layer.scores(), {0.1F, 0.2F, 0.7F});
}

class Keys final : public KeyReader {
 public:
  Keys(int32_t n_heads, std::vector<Floats> rows) : n_heads_(n_heads), rows_(std::move(rows)) {}
  int32_t n_tokens() const override { return static_cast<int32_t>(rows_.size()); }
  int32_t n_kv_heads() const override { return n_heads_; }
  int32_t head_dim() const override { return 2; }
  void read(int32_t token, int32_t head, std::span<float> row) const override {
    for (size_t d = 0; d < 2; ++d) {
      row[d] = rows_[static_cast<size_t>(token)][static_cast<size_t>(head) * 2 + d];
    }
  }

 private:
  int32_t n_heads_;
  std::vector<Floats> rows_;
};

// Directions (1,0), (1,0), (0,1): their sum is (2,1), cosines 2/sqrt 5 twice and 1/sqrt 5.
TEST(KeyDiff, MinusCosineWithTheMeanDirection) {
  const Policy policy = made("keydiff");
  EXPECT_TRUE(policy.needs().keys);
  const float r5 = std::sqrt(5.0F);
  const Keys one(1, {{1, 0}, {7, 0}, {0, 3}});
  expect_near(Layer(policy, {0, 1, 2}).scores(&one), {-2 / r5, -2 / r5, -1 / r5});
  // A second head where all point the same way: cosine 1, halved with the first.
  const Keys two(2, {{1, 0, 1, 1}, {7, 0, 2, 2}, {0, 3, 5, 5}});
  expect_near(Layer(policy, {0, 1, 2}).scores(&two),
              {-(2 / r5 + 1) / 2, -(2 / r5 + 1) / 2, -(1 / r5 + 1) / 2});
  const Keys zero(1, {{0, 0}, {1, 0}, {std::numeric_limits<float>::quiet_NaN(), 0}});
  expect_near(Layer(policy, {0, 1, 2}).scores(&zero), {0, -1, 0});
}

TEST(KNorm, ShortKeysStay) {
  const Policy policy = made("knorm");
  Layer layer(policy, {0, 1});
  const Floats rows = {3, 4, 0, 0, 9, /**/ 0, 1, 1, 0, 9};  // two heads of two, and a gap
  policy.ranker->arrive({ArrivingRows::Kind::kKeys, rows.data(), 5, 2, 2, 2}, layer.state);
  policy.ranker->arrive({ArrivingRows::Kind::kValues, rows.data(), 0, 2, 2, 2}, layer.state);
  expect_near(layer.scores(), {-2.5F, -1.0F});
}

TEST(Random, IsRepeatedAndFreshInStepLayerAndSeed) {
  PolicyParams params;
  params.seed = 5;
  const Policy policy = made("random", params), other = made("random");
  Positions positions(1000);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i) + 4;
  Layer layer(policy, positions), unlike(other, positions);
  const Floats first = layer.scores();
  EXPECT_EQ(first, layer.scores());
  std::set<Floats> all = {first, layer.scores(nullptr, 1), unlike.scores()};
  layer.step = 1;
  all.insert(layer.scores());
  EXPECT_EQ(all.size(), 4U);
  double sum = 0;
  for (const float s : first) {
    EXPECT_TRUE(s >= 0 && s < 1);
    sum += s;
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);  // 5 standard deviations
}

Floats conf_scores(const PolicyParams& params, const Floats& state, const char* name = "conf") {
  const Policy policy = made(name, params);
  Positions positions(state.size() / static_cast<size_t>(policy.ranker->n_state()));
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i);
  Layer layer(policy, positions);
  layer.state = state;
  return layer.scores();
}

TEST(ConfVariants, RankIsTheShareThatIsSmaller) {
  PolicyParams params;
  params.alpha = 1;
  params.scale = AttentionScale::kRank;
  expect_near(conf_scores(params, {0.1F, 9.0F, 0.3F, 0.3F}), {0, 1, 1.0F / 3, 1.0F / 3});
  expect_near(conf_scores(params, {0.1F}), {0});
  params.alpha = 0.5;
  expect_near(conf_scores(params, {0.2F, 0.2F, 0.2F}), {0, 0.25F, 0.5F});
}

TEST(ConfVariants, LogIsMinMaxOfLogarithms) {
  PolicyParams params;
  params.alpha = 1;
  params.scale = AttentionScale::kLog;
  expect_near(conf_scores(params, {1e-6F, 2e-4F, 1.0F}),
              {0, static_cast<float>(std::log(2.01e-4 / 2e-6) / std::log(1.000001 / 2e-6)), 1});
}

TEST(ConfVariants, ValuesWeighAttention) {
  PolicyParams params;
  params.alpha = 1;
  params.values = true;
  expect_near(conf_scores(params, {0.1F, 8.0F, 0.5F, 0.4F, 0.2F, 2.5F}), {1, 0, 0.5F});
  const Policy policy = made("conf", params);
  EXPECT_TRUE(policy.needs().rows);
  Layer layer(policy, {0});
  const Floats row = {3, 4};
  policy.ranker->arrive({ArrivingRows::Kind::kValues, row.data(), 2, 1, 1, 2}, layer.state);
  policy.ranker->arrive({ArrivingRows::Kind::kKeys, row.data(), 2, 1, 2, 1}, layer.state);
  layer.see({0.5F});
  expect_near(layer.state, {0.05F, 5});
}

TEST(ConfPlus, IsConfWithOtherDefaults) {
  const Policy policy = made("conf+");
  EXPECT_FALSE(policy.needs().confidence);
  EXPECT_EQ(policy.ranker->n_state(), 2);
  Confidence sure;
  sure.c = 1;
  EXPECT_EQ(policy.budget->tokens({true, &sure}, {}), 256);
  expect_near(conf_scores({}, {0.1F, 8.0F, 0.5F, 0.4F, 0.2F, 2.5F}, "conf+"), {1, 0, 0.5F});
  PolicyParams params;
  params.budget = 300;
  params.high = 100;
  const Policy two = made("conf+", params);
  EXPECT_TRUE(two.needs().confidence);
  EXPECT_EQ(two.budget->tokens({true, &sure}, {}), 100);
}

}  // namespace
}  // namespace kvasir
