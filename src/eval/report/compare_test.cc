#include "eval/report/compare.h"

#include <gtest/gtest.h>

#include <sstream>

#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

/// The first line with `part`, single spaces in both; "" if there is none.
std::string line_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string single;
    for (const char c : line) {
      if (c != ' ' || (!single.empty() && single.back() != ' ')) single += c;
    }
    if (single.find(part) != std::string::npos) return single;
  }
  return "";
}

TEST(Compare, ShowsSettingsByNameWithTheFloor) {
  const Json a = fidelity_result();
  Json b = a;
  b["sets"][1]["kl"]["mean"] = 0.05;
  b["sets"][2]["kl"]["mean"] = 0.1012;
  std::swap(b["sets"][0], b["sets"][1]);  // by name, not by place
  const auto text = compare_results(a, b);
  ASSERT_TRUE(text) << text.error();
  EXPECT_EQ(line_with(text.value(), "conf-128"),
            "conf-128 <= floor <= floor 90.0 90.0 11.5 11.5 4.00 4.00 within floor");
  EXPECT_EQ(line_with(text.value(), "window-128"),
            "window-128 0.2 0.05 90.0 90.0 11.5 11.5 3.00 3.00 B nearer");
  EXPECT_EQ(line_with(text.value(), "window-512"),
            "window-512 0.1 0.101 90.0 90.0 11.5 11.5 16.0 16.0 within floor");
}

TEST(Compare, CountsFlipsBetweenTheFiles) {
  const Json a = needle_result();
  Json b = a;
  for (Json& sample : b["samples"]) {
    if (sample["setting"] != "conf-128") continue;
    const int id = std::stoi(sample["id"].get<std::string>());
    if (id < 30) sample["score"] = 0.0;
    if (id == 38) sample["score"] = 0.5;
  }
  for (Json& score : b["scores"]) {
    if (score["setting"] == "conf-128") score.update({{"mean", 0.2}, {"low", 0.1}, {"high", 0.3}});
  }
  const auto text = compare_results(a, b);
  ASSERT_TRUE(text) << text.error();
  EXPECT_EQ(line_with(text.value(), "needle conf-128"),
            "needle conf-128 0.90 [0.77, 0.96] 0.20 [0.10, 0.30] 0.95 0.95 30 1 B lower");
  EXPECT_EQ(line_with(text.value(), "needle full"),
            "needle full 1.00 [0.91, 1.00] 1.00 [0.91, 1.00] 3.81 3.81 0 0 overlap");
}

TEST(Compare, RefusesWhatDiffersByName) {
  const Json a = fidelity_result();
  EXPECT_EQ(compare_results(a, premise_result()).error(),
            "found a fidelity and a premise result, expected two of one kind");
  Json b = a;
  b["model"]["name"] = "other";
  EXPECT_EQ(compare_results(a, b).error(),
            "model.name is \"tiny\" and \"other\"; expected two runs of the same (or leave to "
            "compare different ones)");
  b = a;
  b["text"]["tokens"] = 301;
  EXPECT_NE(compare_results(a, b).error().find("text.tokens is 300 and 301"), std::string::npos);
  const auto allowed = compare_results(a, b, {"a.json", "b.json", true});
  ASSERT_TRUE(allowed);
  EXPECT_EQ(line_with(allowed.value(), "different"), "different: text.tokens is 300 and 301");
}

TEST(Compare, ShowsWhatLayersHaveInTheMean) {
  const Json a = neighbours_result();
  Json b = a;
  b["layers"][1]["distances"]["earlier"]["far"] = 0.25;
  const auto text = compare_results(a, b);
  ASSERT_TRUE(text) << text.error();
  EXPECT_EQ(line_with(text.value(), "nearest of all earlier"),
            "more than 16 away: nearest of all earlier tokens 62.5 % 50.0 %");
  b["references"]["stride"] = 20;
  EXPECT_NE(compare_results(a, b).error().find("references.stride is 10 and 20"),
            std::string::npos);
}

TEST(Compare, RefusesOtherQuestions) {
  const Json a = needle_result();
  Json b = a;
  for (Json& sample : b["samples"]) {
    if (sample["id"] == "7") sample["id"] = "70";
  }
  EXPECT_NE(
      compare_results(a, b).error().find("question \"q\" of \"needle\", id \"7\", is not in B"),
      std::string::npos);
  b = a;
  for (Json& sample : b["samples"]) sample["n_context"] = 991;
  EXPECT_NE(compare_results(a, b).error().find("has 990 and 991 tokens"), std::string::npos);
}

TEST(Compare, SaysWhatOnlyOneHasAndOtherFlags) {
  const Json a = fidelity_result();
  Json b = a;
  b["settings"][1]["name"] = b["sets"][0]["name"] = "conf-999";
  b["settings"][2]["flags"] = "--kv-policy window --kv-budget 64";
  const auto text = compare_results(a, b);
  ASSERT_TRUE(text) << text.error();
  EXPECT_EQ(line_with(text.value(), "only in A"), "only in A: conf-128");
  EXPECT_EQ(line_with(text.value(), "only in B"), "only in B: conf-999");
  EXPECT_EQ(line_with(text.value(), "other flags"), "other flags: window-128");
}

TEST(Compare, FitsAHundredColumnsAndMovesNoCursor) {
  for (Json a : all_results()) {
    Json b = a;
    std::string text = a.dump();
    for (Json* result : {&a, &b}) {
      const std::string name = "w\u00e4\u001b[2J" + std::string(150, 'x');
      (*result)["settings"][0]["flags"] = std::string(result == &a ? 300 : 299, 'f');
      (*result)["machine"]["cpu"] = std::string(result == &a ? 300 : 299, 'c');
      for (const char* list : {"sets", "scores", "samples", "flips"}) {
        if (!result->contains(list)) continue;
        for (Json& item : (*result)[list]) {
          if (item.contains("task")) item["task"] = name;
        }
      }
    }
    const auto table = compare_results(a, b);
    ASSERT_TRUE(table) << table.error();
    EXPECT_EQ(table.value().find('\x1b'), std::string::npos);
    std::istringstream lines(table.value());
    for (std::string line; std::getline(lines, line);) {
      size_t columns = 0;
      for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
      EXPECT_LE(columns, 100U) << line;
    }
  }
}

}  // namespace
}  // namespace kvasir::eval
