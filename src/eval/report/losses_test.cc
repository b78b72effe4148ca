#include "eval/report/losses.h"

#include <gtest/gtest.h>

#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

TEST(Losses, NamesSettingsThatOthersBeatAtEqualOrFewerBytes) {
  // window-128 is farther than conf-128 but smaller; window-512 is larger and farther.
  const Texts expected = {
      "window-512: KL 0.1 at 16.0 MiB, where conf-128 has <= floor at 4.00 MiB"};
  EXPECT_EQ(find_losses(fidelity_result()).kl, expected);
}

TEST(Losses, EqualBytesCountAndTwiceDoesNot) {
  Json result = fidelity_result();
  result["sets"][1]["kv"]["bytes_mean"] = 4 * 1048576;
  ASSERT_EQ(find_losses(result).kl.size(), 2U);
  EXPECT_EQ(find_losses(result).kl[0],
            "window-128: KL 0.2 at 4.00 MiB, where conf-128 has <= floor at 4.00 MiB");
  result["sets"][0]["kl"]["mean"] = 0.1;
  EXPECT_EQ(find_losses(result).kl, Texts());
}

TEST(Losses, SaysNothingBelowTwiceTheFloor) {
  Json result = fidelity_result();
  result["sets"][0]["kl"]["mean"] = 0.0001;
  result["sets"][2]["kl"]["mean"] = 0.0039;  // 39 times as much, but below twice the floor
  EXPECT_EQ(find_losses(result).kl, Texts());
}

TEST(Losses, NamesScoresBelowTheReferencesInterval) {
  const Losses losses = find_losses(needle_result());
  const Texts expected = {"window-128 in needle: 0.00 [0.00, 0.09], full 1.00 [0.91, 1.00], n 40"};
  EXPECT_EQ(losses.scores, expected);
  ASSERT_EQ(losses.groups.size(), 4U);
  EXPECT_EQ(losses.groups[1],
            "window-128 in needle (length 1000, depth 100): 0.00 [0.00, 0.09], full 1.00 [0.91, "
            "1.00], n 10");
}

TEST(Losses, CountsErrorsAndSkippedQuestions) {
  Json result = needle_result();
  result["samples"][5]["status"] = "skipped";
  const Texts expected = {
      "full: 0 errors and 1 skipped of 40 questions",
      "window-128: 1 errors and 0 skipped of 40 questions; the first: too long"};
  EXPECT_EQ(find_losses(result).failures, expected);
}

TEST(Losses, NamesCachesThatSaveNothing) {
  Json result = fidelity_result();
  EXPECT_EQ(find_losses(result).memory, Texts());
  result["sets"][0]["kv"]["bytes_mean"] = 64 * 1048576;
  const Texts expected = {"conf-128: 64.0 MiB, no less than the full cache's 64.0 MiB"};
  EXPECT_EQ(find_losses(result).memory, expected);
}

TEST(Losses, NamesConfidenceWithoutASureCorrelation) {
  Json result = premise_result();
  EXPECT_TRUE(find_losses(result).empty());
  result["correlations"][0]["high"] = 0.01;
  const Texts expected = {"confidence at temperature 1: Pearson -0.31 [-0.42, 0.01], n 30"};
  EXPECT_EQ(find_losses(result).premise, expected);
}

}  // namespace
}  // namespace kvasir::eval
