#include "eval/measure/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/measure/synthetic_rows.h"
#include "format/f16_page.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kDepth = 10 * kPageSlots;

SyntheticPlan small_plan(std::vector<std::string> flags = {}) {
  SyntheticPlan plan;
  plan.shape = {3, 4, 2, 32};
  plan.depths = {kDepth};
  plan.steps = 5;
  const Result<void> taken = take_flags(flags, plan.options);
  EXPECT_TRUE(taken) << taken.error();
  return plan;
}

std::vector<SyntheticSamples> run(const SyntheticPlan& plan) {
  SerialFor serial;
  auto samples = run_synthetic(plan, best_kernels(), serial, [](double, const std::string&) {});
  EXPECT_TRUE(samples) << samples.error();
  return samples ? samples.value() : std::vector<SyntheticSamples>{};
}

// Pages of f16 rows of `tokens` tokens, all layers.
double page_bytes(const SyntheticShape& shape, int32_t tokens) {
  const LayerGeometry geometry{shape.n_kv_heads, shape.head_dim, shape.head_dim};
  const int32_t pages = (tokens + kPageSlots - 1) / kPageSlots;
  return static_cast<double>(F16Page::bytes(geometry)) * pages * shape.n_layers;
}

TEST(Synthetic, TokenBytesAreThoseOfItsRows) {
  const SyntheticShape shape;
  EXPECT_EQ(shape.token_bytes(), 4 * 3 * 64 * 2 * 2);
}

TEST(Synthetic, CountsTheRowsAndBytesThatAStepReads) {
  const SyntheticPlan plan = small_plan();
  const auto all = run(plan);
  ASSERT_EQ(all.size(), 1U);
  // The first step reads kDepth + 1 rows and is not counted; five more follow.
  EXPECT_DOUBLE_EQ(all[0].live_tokens, kDepth + 4);
  const double pages = page_bytes(plan.shape, kDepth + 6);
  EXPECT_GE(all[0].read_bytes, pages);
  EXPECT_LT(all[0].read_bytes, pages * 1.01) << "pages and their table";
  EXPECT_GE(static_cast<double>(all[0].kv_bytes), all[0].read_bytes);
  EXPECT_GE(all[0].kv_bytes_peak, all[0].kv_bytes);
}

TEST(Synthetic, CountsAndTimesASelection) {
  const auto all = run(small_plan(
      {"--kv-select", "omnikv", "--kv-keep", "64", "--kv-full-layers", "0", "--kv-recent", "32"}));
  ASSERT_EQ(all.size(), 1U);
  // The first of three layers reads all, the others sinks, chosen and recent rows.
  EXPECT_NEAR(all[0].live_tokens, (kDepth + 4 + 2 * (4 + 64 + 32)) / 3.0, 1e-6);
  for (const StepTimes& step : all[0].steps) {
    EXPECT_GT(step.selection, 0);
    EXPECT_GT(step.attention, 0);
    EXPECT_LE(step.selection + step.attention, step.step);
  }
}

TEST(Synthetic, TimesAppendAndAttentionWhereNothingLeaves) {
  const auto all = run(small_plan());
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(all[0].steps.size(), 5U);
  for (const StepTimes& step : all[0].steps) {
    EXPECT_GT(step.append, 0);
    EXPECT_GT(step.attention, 0);
    EXPECT_EQ(step.ranking, 0);
    EXPECT_EQ(step.eviction, 0);
    EXPECT_EQ(step.demotion, 0);
    EXPECT_GE(step.step, step.append + step.attention);
  }
}

TEST(Synthetic, TimesRankingAndEvictionApart) {
  const auto all = run(small_plan({"--kv-policy", "conf", "--kv-budget", "128"}));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_GT(all[0].first.eviction, 0) << "from the depth to the budget";
  EXPECT_DOUBLE_EQ(all[0].live_tokens, 129) << "the budget and the step's own token";
  for (const StepTimes& step : all[0].steps) {
    EXPECT_GT(step.ranking, 0);
    EXPECT_GT(step.eviction, 0);
    EXPECT_EQ(step.demotion, 0);
    EXPECT_GE(step.step, step.append + step.attention + step.ranking + step.eviction);
  }
}

TEST(Synthetic, TimesDemotionApart) {
  SyntheticPlan plan = small_plan({"--kv-format", "int8", "--kv-recent", "32"});
  plan.depths = {8 * kDepth};
  const auto all = run(plan);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_GT(all[0].first.demotion, 0);
  for (const StepTimes& step : all[0].steps) {
    EXPECT_GT(step.demotion, 0);
    EXPECT_EQ(step.ranking, 0);
    EXPECT_EQ(step.eviction, 0);
  }
  EXPECT_LT(all[0].read_bytes, 0.7 * page_bytes(plan.shape, 8 * kDepth));
}

TEST(Synthetic, EachDepthStartsAnew) {
  SyntheticPlan plan = small_plan({"--kv-policy", "window", "--kv-budget", "50%"});
  plan.depths = {100, 104, 2 * kDepth};
  const auto all = run(plan);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_NEAR(all[0].live_tokens, 53, 1.5);
  EXPECT_NEAR(all[1].live_tokens, 55, 1.5);
  EXPECT_NEAR(all[2].live_tokens, kDepth + 3, 1.5);
}

TEST(Synthetic, RefusesWhatHasNoModel) {
  const auto refused = [](std::vector<std::string> flags) {
    return check_synthetic(small_plan(std::move(flags)), 0).error();
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({"--kv-budget-mb", "9", "--kv-policy", "window"}),
            "--kv-budget-mb 9 needs a model: leave it out with --synthetic");
  EXPECT_EQ(refused({"--kv-stats"}), "--kv-stats needs a model: leave it out with --synthetic");
  EXPECT_EQ(refused({"--kv-trace", "t.jsonl"}),
            "--kv-trace t.jsonl needs a model: leave it out with --synthetic");
}

TEST(Synthetic, RefusesHeadsThatDoNotDivideAndRowsThatDoNotFit) {
  SyntheticPlan plan = small_plan();
  plan.shape.n_heads = 5;
  EXPECT_EQ(check_synthetic(plan, 0).error(),
            "--synthetic-heads 5: allowed are multiples of --synthetic-kv-heads 2");
  plan = small_plan();
  plan.depths = {1 << 20};
  plan.steps = 0;
  EXPECT_TRUE(check_synthetic(plan, int64_t{1} << 40));
  EXPECT_EQ(check_synthetic(plan, int64_t{1} << 29).error(),
            "--n-depth 1048576: its f16 rows need 768 MiB; 512 MiB of memory are free");
}

TEST(Synthetic, ReportsAsMuchProgressAsItAnnounced) {
  SyntheticPlan plan = small_plan();
  plan.depths = {100, 3000};
  double done = 0;
  SerialFor serial;
  auto samples = run_synthetic(plan, best_kernels(), serial,
                               [&](double units, const std::string&) { done += units; });
  ASSERT_TRUE(samples);
  EXPECT_DOUBLE_EQ(done, synthetic_units(plan));
}

TEST(NormalValues, AreNormalAndTheSameForTheSameSeed) {
  std::vector<float> x(100'001), again(x.size()), other(x.size());
  NormalValues(3).fill(7, x);
  NormalValues(3).fill(7, again);
  NormalValues(3).fill(8, other);
  EXPECT_EQ(x, again);
  EXPECT_NE(x, other);
  double sum = 0, squares = 0, within = 0, together = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    squares += double{x[i]} * x[i];
    within += std::abs(x[i]) < 1 ? 1 : 0;
    together += double{x[i]} * other[i];
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.03);
  EXPECT_NEAR(within / n, 0.6827, 0.01);
  EXPECT_NEAR(together / n, 0, 0.02) << "blocks do not follow each other";
}

}  // namespace
}  // namespace kvasir::eval
