#include "eval/report/published.h"

#include "eval/report/claims.h"

namespace kvasir::eval {
namespace {

// From the paper's own tables (arXiv 2605.24786v1); no run is needed to see them.
constexpr const char* kFromThePaper =
    "CONF-KV, needle: the means of its printed heat map are 98.0 (full), 93.3 (CONF-KV), 83.1 "
    "(H2O) and 28.3 (sliding), where its text says 91.4, 80.6 and 53.8 for the last three. Its "
    "depth is counted from the end, ours from the start.\n"
    "\n"
    "CONF-KV, models: GPT-2, Qwen-14B, gpt-oss-20b and Qwen-32B on an H100. A figure of another "
    "model on another machine is compared in its direction, not in its size.";

}  // namespace

std::string not_reproduced(std::span<const nlohmann::ordered_json> results) {
  std::string text = kFromThePaper;
  for (const Claim& claim : judge_claims(results)) {
    if (claim.verdict == Verdict::kReproduced || claim.verdict == Verdict::kMissing) continue;
    text.append("\n\n").append(claim.text).append(": ").append(verdict_text(claim.verdict));
    text.append(". Published: ").append(claim.published);
    if (!claim.measured.empty()) text.append(". Here: ").append(claim.measured);
    text.append(". ").append(claim.reason).append(".");
  }
  return text;
}

}  // namespace kvasir::eval
