#include "eval/measure/capacity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "eval/measure/capacity_report.h"

namespace kvasir::eval {
namespace {

TEST(Capacity, TheLastStreamsAreCountedOut) {
  const std::vector<int64_t> streams = {10, 20, 30, 40};
  EXPECT_EQ(streams_that_fit(105, streams, 0, 105), 4);  // 5 are shared
  EXPECT_EQ(streams_that_fit(105, streams, 0, 104), 3);
  EXPECT_EQ(streams_that_fit(105, streams, 1, 105), 3);
  EXPECT_EQ(streams_that_fit(105, streams, 0, 65), 3);
  EXPECT_EQ(streams_that_fit(105, streams, 0, 64), 2);
  EXPECT_EQ(streams_that_fit(105, streams, 0, 14), 0);
  EXPECT_EQ(streams_that_fit(105, {}, 0, 200), 0);
}

CapacitySetup setup() {
  CapacitySetup setup;
  setup.model = "small";
  setup.plan.budget_bytes = int64_t{64} << 20;
  return setup;
}

std::vector<CapacitySample> samples() {
  CapacitySample fits{"full", "--kv-policy none", 4, true, 3 << 20, 1 << 20, 4096, {.5, .25, 1}};
  CapacitySample none{"large", "--kv-format int8", 0, false, 99 << 20, 0, 4096, {}};
  return {fits, none};
}

TEST(Capacity, TokensAreThoseOfAllSequences) {
  EXPECT_DOUBLE_EQ(samples()[0].tokens_per_second(), 8);
  EXPECT_DOUBLE_EQ(samples()[1].tokens_per_second(), 0);
}

TEST(Capacity, TheTableSaysWhatFits) {
  const std::string table = to_markdown(setup(), samples());
  EXPECT_NE(table.find("| full | 4 or more | 3.0 | 1.0 | 4096 | 500.00 | 8.0 |\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("| large | 0 | 99.0 | 0.0 | 4096 | | |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("budget: 64 MiB, sequences of 4096 tokens"), std::string::npos);
  const auto json = nlohmann::json::parse(to_json(setup(), samples()));
  EXPECT_EQ(json["settings"][0]["sequences"], 4);
  EXPECT_EQ(json["settings"][0]["step_seconds"].size(), 3U);
  EXPECT_EQ(json["settings"][1]["tokens_per_second"], 0.0);
}

}  // namespace
}  // namespace kvasir::eval
