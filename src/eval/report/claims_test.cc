#include "eval/report/claims.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "eval/report/method_view.h"
#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

Claim find(const std::vector<Claim>& claims, const std::string& part) {
  const auto it = std::find_if(claims.begin(), claims.end(), [&](const Claim& claim) {
    return claim.text.find(part) != std::string::npos;
  });
  EXPECT_NE(it, claims.end()) << part;
  return it == claims.end() ? Claim{} : *it;
}

Claim judged(const std::vector<Json>& results, const std::string& part) {
  return find(judge_claims(results), part);
}

TEST(Claims, MethodsHaveTheNamesOfThePapers) {
  EXPECT_EQ(paper_name(method_of("--kv-policy streaming --kv-budget 9")), "StreamingLLM");
  EXPECT_EQ(paper_name(method_of("--kv-policy=tova")), "TOVA");
  EXPECT_EQ(paper_name(method_of("--kv-policy none")), "full");
  EXPECT_EQ(paper_name(method_of("--kv-policy conf --kv-format int8-channel")), "CONF-KV+INT8");
  EXPECT_EQ(paper_name(method_of("--kv-policy conf --kv-format int4")), "");
  EXPECT_EQ(paper_name(method_of("--kv-policy window --kv-format nf4")), "");
}

TEST(Claims, WithoutAResultEachSaysSo) {
  const auto claims = judge_claims({});
  EXPECT_GE(claims.size(), 14U);
  for (const Claim& claim : claims) {
    EXPECT_TRUE(claim.measured.empty()) << claim.text;
    EXPECT_TRUE(claim.verdict == Verdict::kMissing || claim.verdict == Verdict::kUntestable);
    EXPECT_FALSE(claim.reason.empty()) << claim.text;
  }
  EXPECT_STREQ(verdict_text(find(claims, "sure step").verdict), "no result here");
  EXPECT_EQ(find(claims, "VisualWebArena").verdict, Verdict::kUntestable);
}

TEST(Claims, ThePremiseNeedsAnIntervalBelowZero) {
  const Claim held = judged({premise_result()}, "A sure step");
  EXPECT_EQ(held.verdict, Verdict::kReproduced);
  EXPECT_NE(held.measured.find("-0.31 [-0.42, -0.18], n 30"), std::string::npos) << held.measured;
  Json wide = premise_result();
  wide["correlations"][0]["high"] = 0.01;
  EXPECT_EQ(judged({wide}, "A sure step").verdict, Verdict::kNotReproduced);
}

TEST(Claims, SureStepsAreCounted) {
  const Claim claim = judged({premise_result()}, "42 %");
  EXPECT_EQ(claim.verdict, Verdict::kNotReproduced);
  EXPECT_NE(claim.measured.find("25.0 %"), std::string::npos) << claim.measured;
}

TEST(Claims, NeedlesNeedThreePolicies) {
  EXPECT_EQ(judged({needle_result()}, "sliding window little").verdict, Verdict::kMissing)
      << "no h2o";
  Json all = methods_needle(36, 30, 0);
  EXPECT_EQ(judged({all}, "sliding window little").verdict, Verdict::kReproduced);
  const Claim lost = judged({methods_needle(20, 30, 0)}, "sliding window little");
  EXPECT_EQ(lost.verdict, Verdict::kNotReproduced);
  EXPECT_NE(lost.measured.find("CONF-KV 50.0 %, H2O 75.0 %"), std::string::npos) << lost.measured;
}

TEST(Claims, ThePublishedOrderIsCountedByPairs) {
  // Perplexities as the paper has them, in its order.
  const Claim held = judged({methods_fidelity(true)}, "best perplexity");
  EXPECT_EQ(held.verdict, Verdict::kReproduced);
  EXPECT_NE(held.measured.find("28 of 28 pairs"), std::string::npos) << held.measured;
  const Claim turned = judged({methods_fidelity(false)}, "best perplexity");
  EXPECT_EQ(turned.verdict, Verdict::kNotReproduced);
  EXPECT_NE(turned.measured.find("0 of 28 pairs"), std::string::npos) << turned.measured;
}

TEST(Claims, ThePyramidMustWinBoth) {
  EXPECT_EQ(judged({methods_fidelity(true)}, "CONF-KV-L").verdict, Verdict::kReproduced);
  Json heavy = methods_fidelity(true);
  for (Json& set : heavy["sets"]) {
    if (set.at("name") == "conf, int8-channel, pyramid") set["kv"]["bytes_mean"] = 1e9;
  }
  EXPECT_EQ(judged({heavy}, "CONF-KV-L").verdict, Verdict::kNotReproduced);
}

TEST(Claims, SpeedIsThatOfTheReference) {
  const Claim slow = judged({methods_fidelity(true)}, "1.8 times as fast");
  EXPECT_EQ(slow.verdict, Verdict::kNotReproduced);
  EXPECT_NE(slow.measured.find("15.00 against 10.00 ms, 1.50 times"), std::string::npos)
      << slow.measured;
  Json fast = methods_fidelity(true);
  fast["reference"]["step_ms"]["total"]["p50"] = 17;
  EXPECT_EQ(judged({fast}, "1.8 times as fast").verdict, Verdict::kReproduced);
}

TEST(Claims, FormatsMustRiseInOrder) {
  const auto with = [](double int8, double nf4, double int4) {
    return fidelity_of({{"int8-channel", "--kv-policy none --kv-format int8-channel", int8},
                        {"nf4", "--kv-policy none --kv-format nf4", nf4},
                        {"int4", "--kv-policy none --kv-format int4", int4}});
  };
  const Claim held = judged({with(11.01, 11.1, 11.2)}, "int8 costs little");
  EXPECT_EQ(held.verdict, Verdict::kReproduced);
  EXPECT_NE(held.measured.find("+0.09 % (int8-channel)"), std::string::npos) << held.measured;
  EXPECT_EQ(judged({with(11.01, 11.3, 11.2)}, "int8 costs little").verdict,
            Verdict::kNotReproduced);
}

TEST(Claims, RankersAreComparedAtRecordedBudgetsOnly) {
  const std::string schedule = " --kv-schedule conf.trace";
  const auto with = [&](const std::string& more) {
    return fidelity_of({{"conf", "--kv-policy conf", 30},
                        {"random", "--kv-policy random" + more, 36},
                        {"recency", "--kv-policy recency" + more, 33},
                        {"attention", "--kv-policy attention" + more, 32}});
  };
  EXPECT_EQ(judged({with(schedule)}, "same evictions").verdict, Verdict::kReproduced);
  EXPECT_EQ(judged({with("")}, "same evictions").verdict, Verdict::kMissing);
}

}  // namespace
}  // namespace kvasir::eval
