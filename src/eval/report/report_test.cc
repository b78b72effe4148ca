#include "eval/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "eval/report/assets.h"
#include "eval/report/figures.h"
#include "eval/report/html.h"
#include "eval/report/result_view.h"
#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string page_of(const std::vector<Json>& results, const ReportOptions& options = {}) {
  auto page = to_html(results, options);
  EXPECT_TRUE(page) << page.error();
  return page ? page.value() : "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The definitions of the figures as the page's script reads them.
Json definitions_of(const std::string& page) {
  const std::string begin = "id=\"figures\">";
  const size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(Report, HasTheFiguresOfEachKind) {
  const auto kinds_of = [](const Json& result) {
    std::string kinds;
    for (const Figure& figure : make_figures(result)) kinds += figure.kind + " ";
    return kinds;
  };
  EXPECT_EQ(kinds_of(fidelity_result()),
            "memory position sawtooth sawtooth sawtooth confidence confidence confidence "
            "step_time ");
  EXPECT_EQ(kinds_of(needle_result()), "memory scores needle needle needle ");
  EXPECT_EQ(kinds_of(premise_result()), "premise confidence ");
  EXPECT_EQ(kinds_of(neighbours_result()), "lines lines lines ");
}

TEST(Report, EveryFigureHasAPlaceAndAKindThatTheScriptDraws) {
  const std::string page = page_of(all_results());
  const Json definitions = definitions_of(page);
  EXPECT_EQ(definitions.size(), 9U + 2U + 3U + 6U * 5U);
  for (const Json& definition : definitions) {
    EXPECT_TRUE(has(page, "id=\"" + definition.at("id").get<std::string>() + "\""));
    EXPECT_TRUE(has(std::string(figures_script()),
                    "figures." + definition.at("kind").get<std::string>() + " = "));
  }
}

TEST(Report, EscapesEveryTextOfAFile) {
  const std::string evil = "</script><script>alert(1)</script>\"'&";
  std::vector<Json> results = all_results();
  for (Json& result : results) {
    // Every text in the file that may be any text, names of settings the same everywhere.
    std::string text = result.dump();
    std::string quoted = Json(evil).dump();
    quoted.insert(quoted.begin(), ':');
    for (const char* word :
         {":\"tiny\"", ":\"d\"", ":\"cpu\"", ":\"AVX2\"", ":\"conf-128\"", ":\"kjv\"",
          ":\"too long\"", ":\"0.1.0\"", ":\"2025-01-01T00:00:00Z\""}) {
      for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
        text.replace(at, std::string(word).size(), quoted);
        at += quoted.size();
      }
    }
    result = Json::parse(text);
    result["settings"][1 % result["settings"].size()]["flags"] = "--kv-policy " + evil;
    result["command"] = evil;
  }
  ReportOptions options;
  options.title = options.not_reproduced = evil;
  options.names = {evil};
  const std::string page = page_of(results, options);
  EXPECT_FALSE(has(page, "<script>alert"));
  EXPECT_TRUE(has(page, "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
  // Only the page's own four scripts are there, and the definitions are still JSON.
  size_t scripts = 0;
  for (size_t at = page.find("<script"); at != std::string::npos;
       at = page.find("<script", at + 1)) {
    ++scripts;
  }
  EXPECT_EQ(scripts, 4U);
  EXPECT_GT(definitions_of(page).size(), 20U);
}

TEST(Report, LoadsNothing) {
  const std::string page = page_of(all_results());
  EXPECT_TRUE(has(page, "default-src 'none'"));
  for (const char* part : {" src=", "@import", "url(", "<link rel=\"stylesheet\""}) {
    const std::string before_scripts = page.substr(0, page.find("<script"));
    EXPECT_FALSE(has(before_scripts, part)) << part;
  }
  EXPECT_FALSE(has(page, "sourceMappingURL"));
}

TEST(Report, PrintsKlUpToTwiceTheFloorAsTheFloor) {
  const std::string page = page_of({fidelity_result()});
  EXPECT_TRUE(has(page,
                  "<th scope=\"row\">conf-128</th><td>CONF-KV (FP16)</td><td "
                  "class=\"number\">\u2264 floor</td>"));
  EXPECT_TRUE(
      has(page, "<th scope=\"row\">window-128</th><td>sliding</td><td class=\"number\">0.2</td>"));
  Json result = fidelity_result();
  result["sets"][1]["kl"]["exact"] = false;
  EXPECT_TRUE(has(page_of({result}), "<td class=\"number\">\u2265 0.2</td>"));
}

TEST(Report, SaysWhereItLoses) {
  const std::string page = page_of({fidelity_result(), needle_result()});
  EXPECT_TRUE(has(page, "<li>window-512: KL 0.1 at 16.0 MiB, where conf-128"));
  EXPECT_TRUE(has(page, "<li>window-128 in needle: 0.00"));
  EXPECT_TRUE(has(page, "<li>window-128: 1 errors and 0 skipped of 40 questions"));
  EXPECT_TRUE(has(page_of({premise_result()}), "Nothing, by the rules below."));
}

TEST(Report, ShowsWhatIsNotReproducedOnlyIfThereIsSuch) {
  ReportOptions options;
  EXPECT_FALSE(has(page_of({needle_result()}, options), "Published numbers"));
  options.not_reproduced = " \n";
  EXPECT_FALSE(has(page_of({needle_result()}, options), "Published numbers"));
  options.not_reproduced = "one <b>\n\ntwo";
  const std::string page = page_of({needle_result()}, options);
  EXPECT_TRUE(has(page, "Published numbers that this run does not reproduce</h2>"));
  EXPECT_TRUE(has(page, "<p>one &lt;b&gt;</p>\n<p>two</p>"));
}

TEST(Report, RefusesNoResultAndAWrongOne) {
  EXPECT_EQ(to_html({}).error(), "found no result, expected at least one");
  std::vector<Json> results = {needle_result(), needle_result()};
  results[1]["schema"] = 3;
  ReportOptions options;
  options.names = {"a.json", "b.json"};
  EXPECT_EQ(to_html(results, options).error(), "b.json: schema: found 3, expected 1");
}

TEST(Report, MemoryFigureHasPoliciesAndTheFullCache) {
  const Json data = make_figures(fidelity_result())[0].data;
  EXPECT_EQ(data.at("points")[0].at("policy"), "conf");
  EXPECT_EQ(data.at("points")[1].at("policy"), "window");
  EXPECT_EQ(data.at("points")[1].at("mib"), 3.0);
  EXPECT_EQ(data.at("full_mib"), 64.0);
  EXPECT_EQ(data.at("reference"), 0.002);
  const Json scores = make_figures(needle_result())[0].data;
  EXPECT_EQ(scores.at("points")[0].at("quality"), 0.9);
  EXPECT_EQ(scores.at("points")[0].at("low"), 0.77);
  EXPECT_EQ(scores.at("reference"), 1.0);
}

TEST(Report, TitleOfThePremiseHasCorrelationAndInterval) {
  EXPECT_TRUE(has(make_figures(premise_result())[0].title, "Pearson -0.31 [-0.42, -0.18], n 30"));
}

TEST(Html, ScriptsCannotEnd) {
  EXPECT_EQ(escape_script("a('</SCRIPT><!-- </p>')"), "a('<\\/SCRIPT><\\!-- </p>')");
  EXPECT_EQ(script_json({{"a", "</script>\xff"}}), "{\"a\":\"\\u003c/script>\uFFFD\"}");
  EXPECT_EQ(escape_html(std::string("<\0\x1b&\n", 5)), "&lt;\uFFFD\uFFFD&amp;\n");
}

TEST(ResultView, FindsValuesOfFlags) {
  EXPECT_EQ(flag_value("--kv-policy conf --kv-policy=window", "--kv-policy"), "window");
  EXPECT_EQ(flag_value("--kv-policyx conf", "--kv-policy"), std::nullopt);
  EXPECT_EQ(flag_value("--kv-policy", "--kv-policy"), std::nullopt);
  EXPECT_EQ(flag_number("--kv-budget 256", "--kv-budget"), 256);
  EXPECT_EQ(flag_number("--kv-budget 50%", "--kv-budget"), std::nullopt);
}

}  // namespace
}  // namespace kvasir::eval
