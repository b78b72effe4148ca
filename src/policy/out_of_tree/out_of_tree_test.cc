// A method is one file and one line: this one was added to a copy of the folder when it was built.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "policy/policy.h"

namespace kvasir {
namespace {

TEST(OutOfTree, OneFileAndOneLineMakeAPolicy) {
  const auto names = policy_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "oldest"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "conf"), 1);
  PolicyParams params;
  params.budget = 8;
  const auto policy = make_policy("oldest", params);
  ASSERT_TRUE(policy) << policy.error();
  EXPECT_EQ(policy.value().budget->tokens({}, {}), 8);
  const std::vector<int32_t> positions = {4, 7, 9};
  std::vector<float> scores(3);
  policy.value().ranker->score({positions, {}, {}}, scores);
  EXPECT_EQ(scores, (std::vector<float>{-4, -7, -9}));
  params.tau = 0.5;
  EXPECT_EQ(make_policy("oldest", params).error(),
            "--kv-tau 0.5: policy oldest does not use it; it uses --kv-budget, --kv-protect, "
            "--kv-sinks");
}

}  // namespace
}  // namespace kvasir
