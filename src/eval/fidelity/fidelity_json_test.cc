#include "eval/fidelity/fidelity_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kvasir::eval {
namespace {

// Rows whose KL is `kl` and whose next token is `more` nats less likely than under the reference.
FidelityRun run_of(int n, double kl, double more) {
  FidelityRun run;
  for (int i = 0; i < n; ++i) {
    FidelityStep step;
    step.position = 10 + i;
    step.row = {kl * (1 + i % 2), true, 2 + more, 2};
    step.bytes = 1000;
    step.live = 8;
    step.ms = 1;
    run.steps.push_back(step);
  }
  return run;
}

Json set_of(const FidelityRun& run) {
  FidelityPlan plan;
  plan.tokens.assign(10 + run.steps.size(), 1);
  plan.prefix = 10;
  Setting window;
  window.name = "window";
  return fidelity_set(window, plan, run, true, 4000);
}

TEST(FidelityJson, MeansHaveTheirIntervals) {
  const Json set = set_of(run_of(400, 0.2, std::log(1.5)));
  const Json& kl = set.at("kl");
  EXPECT_NEAR(kl.at("mean").get<double>(), 0.3, 1e-12);
  EXPECT_LE(kl.at("low").get<double>(), 0.3 + 1e-12);
  EXPECT_GE(kl.at("high").get<double>(), 0.3 - 1e-12);
  EXPECT_LT(kl.at("high").get<double>() - kl.at("low").get<double>(), 0.03);
  const Json& ratio = set.at("ppl_ratio");
  for (const char* field : {"mean", "low", "high"}) {
    EXPECT_NEAR(ratio.at(field).get<double>(), 1.5, 1e-9) << "the same in every row";
  }
}

TEST(FidelityJson, TheTableShowsThem) {
  const std::string table =
      fidelity_table(Json::array({set_of(run_of(400, 0.2, std::log(1.5)))}), 1e-5);
  EXPECT_NE(table.find("0.3-0.3"), std::string::npos) << table;
  EXPECT_NE(table.find("1.5-1.5"), std::string::npos) << table;
  Json old = set_of(run_of(40, 0.2, 0));  // a result from before intervals
  old.erase("ppl_ratio");
  old["kl"].erase("low");
  EXPECT_NE(fidelity_table(Json::array({old}), 1e-5).find("window"), std::string::npos);
}

TEST(FidelityJson, TheReferenceHasItsOwnPerplexityAndTimes) {
  WholeRows rows(2);
  const std::vector<float> even = {0, 0};
  for (int i = 0; i < 5; ++i) rows.add(even, 0);
  const std::vector<double> ms = {90, 2, 2, 2, 2};
  const Json reference = fidelity_reference("full", rows, ms, 4000);
  EXPECT_NEAR(reference.at("ppl").get<double>(), 2, 1e-6);
  EXPECT_EQ(reference.at("step_ms").at("total").at("p50"), 2);
  EXPECT_EQ(reference.at("step_ms").at("total").at("p95"), 2)
      << "the step behind the prompt is out";
  EXPECT_EQ(reference.at("bytes_end"), 4000);
}

}  // namespace
}  // namespace kvasir::eval
