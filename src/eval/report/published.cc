#include "eval/report/published.h"

#include <cstdio>

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

// From the paper's own tables (arXiv 2605.24786v1); no run is needed to see them.
constexpr const char* kFromThePaper =
    "CONF-KV, memory: the bytes per token that its tables imply for Qwen-14B, gpt-oss-20b and "
    "Qwen-32B (869, 1211 and 1934 KB) are 4 to 25 times what those models store in f16 (197, 49 "
    "and 262 KB), and the share that int8 leaves is the same for all three to three digits. They "
    "cannot be targets; bytes here are allocated bytes of this run.\n"
    "\n"
    "CONF-KV, sliding window of 512: 38.6 MB on GPT-2 are 1,047 tokens, about twice the window, so "
    "the peaks there hold a second buffer. Peaks here are those of one cache.\n"
    "\n"
    "CONF-KV, needle: the means of its printed heat map are 98.0 (full), 93.3 (CONF-KV), 83.1 "
    "(H2O) "
    "and 28.3 (sliding), where its text says 91.4, 80.6 and 53.8 for the last three. Its depth is "
    "counted from the end, ours from the start.\n"
    "\n"
    "CONF-KV, perplexity at 4,096 tokens on GPT-2: the model has 1,024 positions, and how the "
    "others "
    "were handled is not said.\n"
    "\n"
    "CONF-KV, models: GPT-2, Qwen-14B, gpt-oss-20b and Qwen-32B on an H100. A figure of another "
    "model on another machine is compared in its direction, not in its size.";

std::string premise_line(const Json& result) {
  for (const Json& one : result.at("correlations")) {
    if (one.at("signal") != "c" || one.at("temperature") != 1 || !one.at("pearson").is_number()) {
      continue;
    }
    char line[400];
    std::snprintf(line, sizeof(line),
                  "CONF-KV, premise: Pearson's r of confidence and the shift when the past 256 "
                  "tokens are hidden is -0.77 (GPT-2), -0.38, -0.41 and -0.36 (the larger models) "
                  "in the paper. %s here: %+.2f (95 %% interval %+.2f to %+.2f, %d steps).",
                  result.at("model").at("name").get<std::string>().c_str(),
                  one.at("pearson").get<double>(), one.at("low").get<double>(),
                  one.at("high").get<double>(), one.at("n").get<int>());
    return line;
  }
  return {};
}

}  // namespace

std::string not_reproduced(std::span<const Json> results) {
  std::string text = kFromThePaper;
  for (const Json& result : results) {
    if (result.at("kind") != "premise") continue;
    const std::string line = premise_line(result);
    if (!line.empty()) text.append("\n\n").append(line);
  }
  return text;
}

}  // namespace kvasir::eval
