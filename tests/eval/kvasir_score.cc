// Scores JSON lines: reads {metric, prediction, references, classes} and writes {score} for each.
//
// For tests/eval/metrics_crosscheck.py, which compares the scores with those of other packages.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "eval/metrics/score.h"

int main() {
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    const auto value = nlohmann::json::parse(line, nullptr, false);
    if (!value.is_object()) {
      std::fprintf(stderr, "kvasir_score: line %d is no JSON object\n", number);
      return 2;
    }
    kvasir::eval::Question question;
    question.metric = value.value("metric", "");
    question.references = value.value("references", std::vector<std::string>{});
    question.classes = value.value("classes", std::vector<std::string>{});
    const auto score = kvasir::eval::score_answer(value.value("prediction", ""), question);
    if (!score) {
      std::fprintf(stderr, "kvasir_score: line %d: %s\n", number, score.error().c_str());
      return 2;
    }
    std::printf("{\"score\": %.17g}\n", score.value());
  }
  return 0;
}
