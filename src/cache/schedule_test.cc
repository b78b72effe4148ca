// A trace read back as a schedule of budgets, and what is refused of it.
#include "cache/schedule.h"

#include <gtest/gtest.h>

#include "cache/options.h"

namespace kvasir {
namespace {

std::string line(int64_t step, const std::string& budget, int32_t stream = 0) {
  return "{\"step\":" + std::to_string(step) + ",\"stream\":" + std::to_string(stream) +
         ",\"pos\":519,\"token\":null,\"c\":0.93,\"entropy\":2.1e-05,\"margin\":null,\"p1\":0.95,"
         "\"budget\":" +
         budget +
         ",\"live\":{\"min\":128,\"mean\":128.5,\"max\":129},\"bytes\":{\"f16\":5898240},"
         "\"evicted\":30}\n";
}

TEST(ParseSchedule, TakesBudgetsInOrder) {
  const auto budgets =
      parse_schedule(line(0, "null") + line(1, "256") + line(4, "128") + line(5, "256"), "t");
  ASSERT_TRUE(budgets) << budgets.error();
  EXPECT_EQ(budgets.value(), (std::vector<int32_t>{256, 128, 256}));
  std::string cut = line(0, "7");
  cut.pop_back();  // no newline at the end
  ASSERT_TRUE(parse_schedule(cut, "t"));
  EXPECT_EQ(parse_schedule(cut, "t").value(), std::vector<int32_t>{7});
  EXPECT_TRUE(parse_schedule("", "t").value().empty());
  ASSERT_TRUE(parse_schedule("{ \"budget\" : 5 , \"stream\" : 1,\"step\":2 }", "t"));
}

TEST(ParseSchedule, RefusesWithFileAndLine) {
  const std::string expected = "expected a line that --kv-trace wrote, with step, stream, budget";
  const std::pair<std::string, std::string> cases[] = {
      {line(0, "1") + "x\n", "line 2: " + expected},
      {"\n", "line 1: " + expected},
      {line(0, "1") + line(1, "2").substr(0, 60), "line 2: " + expected},
      {line(0, "-3"), "line 1: " + expected},
      {line(0, "1.5"), "line 1: " + expected},
      {line(0, "\"7\""), "line 1: " + expected},
      {"{\"step\":1,\"stream\":0}", "line 1: " + expected},
      {"{\"step\":null,\"stream\":0,\"budget\":1}", "line 1: " + expected},
      {"{\"step\":1,\"stream\":0,\"budget\":1}}", "line 1: " + expected},
      {"{\"step\":1,\"stream\":0,\"budget\":{\"a\":{\"b\":1}}}", "line 1: " + expected},
      {line(0, "99999999999"),
       "line 1: found budget 99999999999, expected at most 2147483647 tokens"},
      {line(0, "1") + line(1, "2") + line(1, "2"),
       "line 3: found step 1 after step 1; a schedule is of one run"},
      {line(0, "1", 0) + line(0, "2", 3),
       "line 2: found stream 3 after stream 0; a schedule is of one stream"},
  };
  for (const auto& [text, message] : cases) {
    const auto budgets = parse_schedule(text, "run.jsonl");
    EXPECT_FALSE(budgets) << text;
    EXPECT_EQ(budgets.error(), "--kv-schedule run.jsonl, " + message);
  }
}

TEST(ReadSchedule, NamesAFileThatIsNotThere) {
  const std::string message =
      "--kv-schedule /no/such/file: cannot be read: No such file or directory";
  EXPECT_EQ(read_schedule("/no/such/file").error(), message);
  CacheOptions options;
  options.policy = "random";
  options.params.schedule_path = "/no/such/file";
  EXPECT_EQ(policy_of(options).error(), message);
  EXPECT_EQ(validate(options).error(), message);
}

TEST(PositionMode, IsThePolicysUnlessGiven) {
  CacheOptions options;
  options.policy = "streaming";
  options.params.budget = 64;
  EXPECT_EQ(options.position_mode(), PositionMode::kCache);
  options.positions = PositionMode::kOriginal;
  EXPECT_EQ(options.position_mode(), PositionMode::kOriginal);
  options = {};
  EXPECT_EQ(options.position_mode(), PositionMode::kOriginal);
  options.policy = "nothing";
  EXPECT_EQ(options.position_mode(), PositionMode::kOriginal);
}

}  // namespace
}  // namespace kvasir
