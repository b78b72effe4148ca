// What rankers are shown, against plain attention and plain norms; and that it moves with the
// token.
#include <gtest/gtest.h>

#include <cmath>

#include "cache/test_model.h"

namespace kvasir {
namespace {

using testing::kNoSink;
using testing::plain_attention;
using testing::TinyModel;
using testing::TinyRun;

CacheOptions options_of(const std::string& policy, int32_t budget) {
  CacheOptions options;
  options.policy = policy;
  options.params.budget = budget;
  return options;
}

// Column sums are plain attention's: the sum over all queries that see a token, mean over heads.
TEST(H2o, ColumnSumsArePlainAttention) {
  const TinyModel model({6, 2, 16, 1}, 100);
  SerialFor serial;
  CacheOptions options;
  options.policy = "h2o";
  options.params.budget = 1000;
  TinyRun run(model, options, serial);
  run.read(70);
  run.end(-1);
  run.read(29);
  run.end(0.5);
  run.read(1);
  run.end(0.5);
  std::vector<double> sums(100, 0.0);
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < 100; ++t) {
    tokens.push_back(t);
    const std::vector<double> bias(tokens.size(), 0.0);
    for (int32_t h = 0; h < 6; ++h) {
      const auto plain = plain_attention(model.rows(0), tokens, bias, h / 3,
                                         model.query(0, t) + ptrdiff_t{h} * 16, 0.25, 0, kNoSink);
      for (size_t i = 0; i < tokens.size(); ++i) sums[i] += plain.mass[i] / 6;
    }
  }
  const auto state = run.cache().find(0, 0)->state();
  ASSERT_EQ(state.size(), sums.size());
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_NEAR(state[i], sums[i], 1e-4 * (1 + sums[i])) << i;
}

// Norms of values, beside the average of attention, stay with their tokens through compaction.
TEST(State, MovesWithItsToken) {
  const TinyModel model({4, 2, 16, 2}, 120);
  SerialFor serial;
  TinyRun run(model, options_of("conf+", 60), serial);
  run.read(70);
  for (int32_t step = 0; step < 40; ++step) {
    run.end(0.5);
    run.read(1);
  }
  run.end(0.5);
  for (int32_t l = 0; l < 2; ++l) {
    LayerCache& rows = *run.cache().find(l, 0);
    ASSERT_EQ(rows.n_slots(), 60);
    ASSERT_EQ(rows.state().size(), 120U);
    for (size_t slot = 0; slot < 60; ++slot) {
      const float* v = model.rows(l).v_row(rows.positions()[slot]);
      double norm = 0;
      for (int32_t h = 0; h < 2; ++h) {
        double squares = 0;
        for (int32_t d = 0; d < 16; ++d) squares += double{v[h * 16 + d]} * v[h * 16 + d];
        norm += std::sqrt(squares) / 2;
      }
      EXPECT_NEAR(rows.state()[2 * slot + 1], norm, 1e-5);
    }
  }
}

// While decoding, the window of the last 32 queries is observed anew every 32 steps: the state is
// then that of these queries alone, pooled over five neighbours.
TEST(SnapKv, ObservesTheLastQueriesAgain) {
  const TinyModel model({4, 2, 16, 1}, 120);
  SerialFor serial;
  TinyRun run(model, options_of("snapkv", 1000), serial);
  run.read(70);
  run.end(0.5);
  const auto state = [&] {
    const auto s = run.cache().find(0, 0)->state();
    return std::vector<float>(s.begin(), s.end());
  };
  const std::vector<float> of_prompt = state();
  for (int32_t step = 0; step < 31; ++step) {
    run.read(1);
    run.end(0.5);
  }
  std::vector<float> held = state();
  held.resize(70);
  EXPECT_EQ(held, of_prompt) << "observed too early";
  run.read(1);
  run.end(0.5);

  std::vector<double> mass(102, 0.0);
  for (int32_t t = 70; t < 102; ++t) {
    std::vector<int32_t> tokens(static_cast<size_t>(t) + 1);
    std::iota(tokens.begin(), tokens.end(), 0);
    const std::vector<double> bias(tokens.size(), 0.0);
    for (int32_t h = 0; h < 4; ++h) {
      const float* q = model.query(0, t) + ptrdiff_t{h} * 16;
      const auto plain = plain_attention(model.rows(0), tokens, bias, h / 2, q, 0.25, 0, kNoSink);
      for (size_t i = 0; i < tokens.size(); ++i) mass[i] += plain.mass[i] / (4 * 32);
    }
  }
  const std::vector<float> again = state();
  ASSERT_EQ(again.size(), mass.size());
  for (size_t i = 0; i < 70; ++i) {
    double pooled = 0;
    for (size_t j = i < 2 ? 0 : i - 2; j <= std::min<size_t>(69, i + 2); ++j) pooled += mass[j] / 5;
    EXPECT_NEAR(again[i], pooled, 1e-5) << i;
  }
  for (size_t i = 70; i < 102; ++i) EXPECT_NEAR(again[i], mass[i], 1e-5) << i;
}

// What a prompt's queries took is given back with the first decoded step.
TEST(Queries, MemoryOfAPromptIsGivenBack) {
  const TinyModel model({4, 2, 16, 1}, 80);
  SerialFor serial;
  TinyRun run(model, options_of("conf", 80), serial);
  run.read(70);
  const size_t one_query = 4 * 16 * sizeof(float) + sizeof(int32_t);
  EXPECT_GE(run.cache().find(0, 0)->ring().bytes(), 32 * one_query);
  run.end(0.5);
  EXPECT_EQ(run.cache().find(0, 0)->ring().bytes(), 0U);
  run.read(1);
  run.end(0.5);
  EXPECT_EQ(run.cache().find(0, 0)->ring().bytes(), one_query);
}

// A share is of the tokens seen, those of a prompt and those that left included.
TEST(Share, GrowsWithTheStream) {
  const TinyModel model({4, 2, 16, 2}, 130);
  SerialFor serial;
  CacheOptions options;
  options.policy = "window";
  options.params.budget_percent = 25;
  TinyRun run(model, options, serial);
  run.read(100);
  for (int32_t seen = 100; seen < 130; ++seen) {
    run.end(0.5);
    for (const auto& live : run.live()) EXPECT_EQ(static_cast<int32_t>(live.size()), seen / 4);
    run.read(1);
  }
}

// The largest query head of a token, not the mean, both of a step and of observed queries.
TEST(Heads, MaxIsOfTheLargestHead) {
  const TinyModel model({4, 2, 16, 1}, 60);
  SerialFor serial;
  CacheOptions options = options_of("tova", 1000);
  options.params.heads = HeadReduction::kMax;
  TinyRun run(model, options, serial);
  run.read(50);
  for (int32_t newest = 49; newest < 52; ++newest) {
    run.end(0.5);
    std::vector<int32_t> tokens(static_cast<size_t>(newest) + 1);
    std::iota(tokens.begin(), tokens.end(), 0);
    const std::vector<double> bias(tokens.size(), 0.0);
    std::vector<double> most(tokens.size(), 0.0);
    for (int32_t h = 0; h < 4; ++h) {
      const float* q = model.query(0, newest) + ptrdiff_t{h} * 16;
      const auto plain = plain_attention(model.rows(0), tokens, bias, h / 2, q, 0.25, 0, kNoSink);
      for (size_t i = 0; i < tokens.size(); ++i) most[i] = std::max(most[i], plain.mass[i]);
    }
    const auto state = run.cache().find(0, 0)->state();
    for (size_t i = 0; i < most.size(); ++i) EXPECT_NEAR(state[i], most[i], 1e-5);
    run.read(1);
  }
}

}  // namespace
}  // namespace kvasir
