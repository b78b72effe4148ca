#include "eval/run/settings.h"

#include <gtest/gtest.h>

namespace kvasir::eval {
namespace {

std::vector<std::string> names(const SettingRequest& request) {
  auto settings = make_settings(request);
  if (!settings) return {"error: " + settings.error()};
  std::vector<std::string> all;
  for (const auto& setting : settings.value()) all.push_back(setting.name);
  return all;
}

using Names = std::vector<std::string>;

TEST(Settings, TheReferenceIsAlwaysFirst) {
  EXPECT_EQ(names({}), Names{"full"});
  SettingRequest request;
  request.base_given = true;
  request.base.policy = "window";
  request.base.params.budget = 64;
  EXPECT_EQ(names(request), (Names{"full", "window"}));
}

TEST(Settings, SetsStandOnTheBase) {
  SettingRequest request;
  request.base.params.budget = 300;
  request.sets = {"a: --kv-policy window", " b : --kv-policy conf --kv-tau 0.5"};
  auto settings = make_settings(request);
  ASSERT_TRUE(settings) << settings.error();
  ASSERT_EQ(settings.value().size(), 3U);
  EXPECT_EQ(settings.value()[0].options, CacheOptions{});
  EXPECT_EQ(settings.value()[1].options.policy, "window");
  EXPECT_EQ(settings.value()[1].options.params.budget, 300);
  EXPECT_EQ(settings.value()[2].name, "b");
  EXPECT_EQ(settings.value()[2].options.params.tau, 0.5);
}

TEST(Settings, SweepsMultiply) {
  SettingRequest request;
  request.sets = {"conf: --kv-policy conf --kv-budget 128"};
  request.sweeps = {"kv-tau=0.5,0.9", "--kv-alpha=0,1"};
  EXPECT_EQ(names(request), (Names{"full", "conf tau=0.5 alpha=0", "conf tau=0.5 alpha=1",
                                   "conf tau=0.9 alpha=0", "conf tau=0.9 alpha=1"}));
}

TEST(Settings, RefuseWhatIsWrongByName) {
  const auto refusal = [](std::vector<std::string> sets, std::vector<std::string> sweeps = {}) {
    SettingRequest request;
    request.sets = std::move(sets);
    request.sweeps = std::move(sweeps);
    return names(request).at(0);
  };
  EXPECT_NE(refusal({"--kv-policy window"}).find("expected \"NAME:"), std::string::npos);
  EXPECT_NE(refusal({"a: --kv-policy nonsense"}).find("nonsense"), std::string::npos);
  EXPECT_NE(refusal({"a: --threads 3"}).find("'--threads' is no --kv-* flag"), std::string::npos);
  EXPECT_NE(
      refusal({"a: --kv-policy window --kv-budget 64", "a:"}).find("two settings are named 'a'"),
      std::string::npos);
  EXPECT_NE(refusal({"full: --kv-policy window --kv-budget 64"}).find("the reference's name"),
            std::string::npos);
  EXPECT_NE(refusal({"a: --kv-policy conf"}, {"--kv-tau="}).find("expected a flag with values"),
            std::string::npos);
  EXPECT_NE(refusal({"a: --kv-policy conf"}, {"kv-tau=0.5", "--kv-tau=0.7"}).find("swept already"),
            std::string::npos);
  EXPECT_NE(refusal({"a: --kv-policy conf"}, {"--kv-tau=0.5,7"}).find("--kv-tau"),
            std::string::npos);
}

}  // namespace
}  // namespace kvasir::eval
