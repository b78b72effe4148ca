#include "eval/report/markdown.h"

#include <gtest/gtest.h>

#include "eval/report/markdown_table.h"
#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string page(const std::vector<Json>& results) {
  auto text = to_markdown(results, {});
  EXPECT_TRUE(text) << text.error();
  return text ? text.value() : std::string();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The line of a table that begins with this cell.
std::string row(const std::string& text, const std::string& first) {
  const size_t at = text.find("\n| " + first + " |");
  if (at == std::string::npos) return "";
  return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(Markdown, TheMainTableHasPapersNamesAndNeedles) {
  const std::string text = page({methods_fidelity(true), methods_needle(36, 30, 0)});
  EXPECT_EQ(text.rfind(kMarkdownMark, 0), 0U);
  EXPECT_TRUE(has(row(text, "window"), "| sliding |")) << text;
  EXPECT_TRUE(has(row(text, "conf"), "| CONF-KV (FP16) |")) << text;
  EXPECT_TRUE(has(row(text, "conf, int8-channel, pyramid"), "| CONF-KV-L |")) << text;
  EXPECT_TRUE(has(row(text, "conf"), "36 of 40, ")) << row(text, "conf");
  EXPECT_TRUE(has(row(text, "window"), "0 of 40, ")) << row(text, "window");
  EXPECT_TRUE(has(row(text, "full"), "40 of 40, ")) << row(text, "full");
  EXPECT_TRUE(has(row(text, "full"), "| 15.0 / 30.0 |")) << row(text, "full");
  EXPECT_TRUE(has(text, "bytes of 256 f16 tokens"));
  EXPECT_TRUE(has(text, "Floor: KL 0.002"));
  EXPECT_TRUE(has(text, "`kvasir eval fidelity`"));
  EXPECT_TRUE(has(text, "2025-01-01T00:00:00Z"));
}

TEST(Markdown, CommandsNameNoFileOfTheirOwn) {
  Json result = fidelity_result();
  result["command"] = "eval fidelity --json /x/y.json --tokens 9";
  EXPECT_TRUE(has(page({result}), "`kvasir eval fidelity --tokens 9`"));
  result["command"] = "eval fidelity --tokens 9 --json /x/y.json";
  EXPECT_TRUE(has(page({result}), "`kvasir eval fidelity --tokens 9`"));
}

TEST(Markdown, RowsAreSortedByKl) {
  const std::string text = page({fidelity_result()});
  const size_t conf = text.find("\n| conf-128 |");
  const size_t wide = text.find("\n| window-512 |");
  const size_t narrow = text.find("\n| window-128 |");
  ASSERT_NE(conf, std::string::npos);
  EXPECT_LT(text.find("\n| full |"), conf);
  EXPECT_LT(conf, wide);
  EXPECT_LT(wide, narrow);
}

TEST(Markdown, IntervalsStandBesideMeans) {
  Json result = fidelity_result();
  Json& set = result["sets"][1];
  set["kl"]["low"] = 0.15;
  set["kl"]["high"] = 0.25;
  set["ppl_ratio"] = {{"mean", 1.05}, {"low", 1.02}, {"high", 1.08}};
  const std::string text = page({result});
  EXPECT_TRUE(has(row(text, "window-128"), "0.2 \\[0.15, 0.25\\]")) << row(text, "window-128");
  EXPECT_TRUE(has(row(text, "window-128"), "×1.050 \\[1.020, 1.080\\]"));
}

TEST(Markdown, MissingResultsAreNamed) {
  const std::string alone = page({fidelity_result()});
  EXPECT_TRUE(has(alone, "needles: no result among these files"));
  EXPECT_TRUE(has(alone, "no result here")) << "claims without a result say so";
  EXPECT_TRUE(has(page({premise_result()}), "No fidelity result is among these files."));
  EXPECT_FALSE(to_markdown({}, {}));
  Json broken = fidelity_result();
  broken.erase("sets");
  const auto refused = to_markdown(std::vector<Json>{broken}, {"a.json"});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(has(refused.error(), "a.json: sets")) << refused.error();
}

TEST(Markdown, WhereConfLosesIsSaid) {
  Json result = methods_fidelity(true);
  for (Json& set : result["sets"]) {
    const bool is_conf = set.at("name") == "conf";
    set["kl"]["mean"] = is_conf ? 0.9 : 0.1;
    set["kl"]["low"] = is_conf ? 0.8 : 0.05;
    set["kl"]["high"] = is_conf ? 1.0 : 0.2;
  }
  const std::string text = page({result, needle_result()});
  EXPECT_TRUE(has(text, "- conf: nearer to the full cache with no more bytes, intervals apart: "))
      << text;
  EXPECT_TRUE(has(text, "- conf: KL 0.9 at ")) << "more than twice another's";
  EXPECT_FALSE(has(text, "- window-128 in needle")) << "other policies' losses are on the page";
  EXPECT_TRUE(has(page({premise_result()}), "Nowhere, by the rules below."));
  Json sure = premise_result();
  sure["correlations"][0]["high"] = 0.1;
  EXPECT_TRUE(has(page({sure}), "- confidence at temperature 1: Pearson"));
}

TEST(Markdown, EveryKindHasItsTable) {
  const std::string text = page(all_results());
  for (const char* kind : {"premise", "ruler", "kvretrieval", "manyshot", "dataset", "agent"}) {
    EXPECT_TRUE(has(text, std::string("\n## ") + kind + ": tiny")) << kind;
  }
}

TEST(Markdown, TextsAreNoMarkup) {
  EXPECT_EQ(escape_markdown("a|b*c\n<i>[d]"), "a\\|b\\*c &lt;i>\\[d\\]");
  EXPECT_EQ(code_text("a b"), "`a b`");
  EXPECT_EQ(code_text("a `b`"), "`` a `b` ``");
  MarkdownTable table({"name", "#n"});
  table.add({"x|y", "1"});
  EXPECT_EQ(table.text(), "| name | n |\n|---|---:|\n| x\\|y | 1 |\n");
}

}  // namespace
}  // namespace kvasir::eval
