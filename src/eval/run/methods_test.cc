#include "eval/run/methods.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "format/row_codec.h"
#include "policy/policy.h"

namespace kvasir::eval {
namespace {

const RowGeometry kSmall{30, 3, 64, 64};
constexpr int32_t kTokens = 256;

std::vector<Setting> methods(int32_t n = kTokens, const CacheOptions& base = {}) {
  auto settings = method_settings(n, kSmall, base);
  EXPECT_TRUE(settings) << settings.error();
  return settings ? std::move(settings.value()) : std::vector<Setting>();
}

const Setting* find(const std::vector<Setting>& settings, std::string_view name) {
  const auto it = std::find_if(settings.begin(), settings.end(),
                               [&](const Setting& setting) { return setting.name == name; });
  return it == settings.end() ? nullptr : &*it;
}

// Tokens a layer keeps where every step is sure, mean over the layers and 4,000 steps.
double kept(const CacheOptions& options) {
  auto policy = policy_of(options);
  EXPECT_TRUE(policy);
  Confidence sure;
  sure.c = 1;
  sure.valid = true;
  double sum = 0;
  for (int32_t layer = 0; layer < kSmall.n_layers; ++layer) {
    int32_t live = 5000;
    for (int32_t step = 0; step < 5000; ++step) {
      live = std::min(live + 1, policy.value().budget->tokens({true, &sure, step, 1 << 20},
                                                              {layer, kSmall.n_layers, live + 1}));
      if (step >= 1000) sum += live;
    }
  }
  return sum / kSmall.n_layers / 4000;
}

TEST(Methods, EveryRegisteredNameHasItsRow) {
  const auto settings = methods();
  size_t expected = 2;  // CONF-KV+INT8 and CONF-KV-L
  for (const std::string_view name : policy_names()) {
    CacheOptions options;
    options.policy = name;
    if (!options.evicts()) continue;  // the reference
    ++expected;
    ASSERT_NE(find(settings, name), nullptr) << name;
    EXPECT_EQ(find(settings, name)->options.policy, name);
    EXPECT_EQ(find(settings, name)->options.format, "f16");
  }
  for (const RowFormat& format : row_formats()) {
    if (format.k == nullptr && format.v == nullptr) continue;
    ++expected;
    ASSERT_NE(find(settings, format.name), nullptr) << format.name;
    EXPECT_EQ(find(settings, format.name)->options.policy, "window");
    EXPECT_EQ(find(settings, format.name)->options.format, format.name);
  }
  for (const char* together : {"residual", "latent"}) {
    ++expected;
    ASSERT_NE(find(settings, together), nullptr) << together;
    EXPECT_EQ(find(settings, together)->options.policy, "window");
  }
  EXPECT_EQ(settings.size(), expected);
  EXPECT_GE(settings.size(), 29U);
}

TEST(Methods, AllTakeTheSameBytes) {
  // 256 tokens: K and V of 3 heads of 64 as binary16, cell and position.
  const double budget = kTokens * (3 * 128 * 2 + 8);
  for (const Setting& setting : methods()) {
    if (setting.options.params.pyramid) continue;  // fewer on purpose
    auto bytes = layer_bytes(setting.options, kSmall, kept(setting.options));
    ASSERT_TRUE(bytes);
    EXPECT_NEAR(bytes.value(), budget, 0.02 * budget) << setting.name;
  }
}

// Reckoned by hand from the sizes of rows: 768 bytes of f16 and 8 of metadata a token.
TEST(Methods, BudgetsAreThoseOfTheRowSizes) {
  const auto settings = methods();
  const double bytes = kTokens * 776.0;
  // conf remembers one float of a token.
  EXPECT_NEAR(kept(find(settings, "conf")->options), bytes / 780, 1);
  // int8: 34 bytes for 32 values; 147.5 tokens as f16: 4 sinks, 128 recent ones, and half of the
  // 31 that may wait until 32 are encoded at once.
  const double row = 6 * 68;
  EXPECT_NEAR(find(settings, "int8")->options.params.budget,
              (bytes - 147.5 * (768 - row)) / (row + 8), 1);
}

TEST(Methods, CompressedRowsMakeRoomForMoreTokens) {
  const auto settings = methods();
  const auto budget = [&](const char* name) { return find(settings, name)->options.params.budget; };
  EXPECT_EQ(budget("window"), kTokens);
  EXPECT_LT(budget("h2o"), kTokens) << "a ranker's state takes bytes";
  EXPECT_GT(budget("int8"), kTokens);
  EXPECT_GT(budget("int4"), budget("int8"));
  EXPECT_GT(budget("kivi2"), budget("int4"));
}

TEST(Methods, ConfHoldsTheTokensOfASureStep) {
  const auto settings = methods();
  const Setting* conf = find(settings, "conf");
  ASSERT_NE(conf, nullptr);
  EXPECT_NEAR(kept(conf->options), kTokens, 2);
  EXPECT_NEAR(conf->options.params.budget, 2 * kTokens, 4) << "twice that when unsure";
  const Setting* whole = find(settings, "conf, int8-channel");
  const Setting* pyramid = find(settings, "conf, int8-channel, pyramid");
  ASSERT_TRUE(whole != nullptr && pyramid != nullptr);
  EXPECT_EQ(whole->options.params.budget, pyramid->options.params.budget);
  EXPECT_LT(kept(pyramid->options), kept(whole->options));
}

TEST(Methods, ASmallBudgetIsEnoughWhereEveryPolicyHasRoom) {
  const auto settings = methods(64);  // conf wants 37 when sure, so 74 in all
  ASSERT_NE(find(settings, "conf"), nullptr);
  EXPECT_NEAR(kept(find(settings, "conf")->options), 63, 1);
}

TEST(Formats, EachIsThereWithEveryTokenKept) {
  auto settings = format_settings({});
  ASSERT_TRUE(settings) << settings.error();
  EXPECT_EQ(settings.value().size(), row_formats().size() + 1) << "all but f16, and two tiers";
  for (const Setting& setting : settings.value()) {
    EXPECT_EQ(setting.options.policy, "none");
    EXPECT_EQ(setting.options.format, setting.name);
  }
}

TEST(Methods, StandOnTheBaseAndRefuseByName) {
  CacheOptions base;
  base.params.sinks = 0;
  base.recent = 64;
  const auto settings = methods(kTokens, base);
  ASSERT_NE(find(settings, "int4"), nullptr);
  EXPECT_EQ(find(settings, "int4")->options.recent, 64);
  EXPECT_EQ(find(settings, "int4")->options.params.sinks, 0);
  const auto refused = method_settings(8, kSmall, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("--methods 8, setting '"), std::string::npos) << refused.error();
}

}  // namespace
}  // namespace kvasir::eval
