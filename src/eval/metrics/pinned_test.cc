// Scores of other packages, written by tests/eval/metrics_crosscheck.py --write.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/metrics/score.h"

namespace kvasir::eval {
namespace {

TEST(Metrics, AgreeWithOtherPackages) {
  std::ifstream file(KVASIR_SAMPLES "/metrics.jsonl");
  std::map<std::string, int> between;  // pairs of each metric whose score is neither 0 nor 1
  std::string line;
  while (std::getline(file, line)) {
    const auto row = nlohmann::json::parse(line);
    Question question;
    question.metric = row.at("metric");
    question.references = row.at("references").get<std::vector<std::string>>();
    const double expected = row.at("score");
    const auto score = score_answer(row.at("prediction").get<std::string>(), question);
    ASSERT_TRUE(score) << score.error();
    EXPECT_NEAR(score.value(), expected, 1e-9) << line;
    between[question.metric] += expected > 0 && expected < 0.999 ? 1 : 0;
  }
  for (const auto* metric : {"f1", "f1_zh", "rouge_l", "rouge_l_zh", "code_edit"}) {
    EXPECT_GE(between[metric], 10) << metric;
  }
}

}  // namespace
}  // namespace kvasir::eval
