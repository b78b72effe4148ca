#include "eval/report/results.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "eval/report/compare.h"
#include "eval/report/report.h"
#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string error_of(const Json& result) { return check_result(result, "f.json").error(); }

TEST(Results, TakesEveryKindOfTheSchema) {
  for (const Json& result : all_results()) {
    EXPECT_EQ(error_of(result), "") << result.at("kind");
    EXPECT_TRUE(parse_result(result.dump(), "f.json")) << result.at("kind");
  }
}

TEST(Results, TakesUnknownFieldsAndAbsentOptionalOnes) {
  Json result = fidelity_result();
  result["new"] = {1, 2};
  result["sets"][0]["new"] = "x";
  result["sets"][0]["confidence"] = nullptr;
  result["settings"][1]["flags"] = {"--kv-policy", "conf"};
  EXPECT_EQ(error_of(result), "");
}

TEST(Results, NamesTheWrongField) {
  struct Case {
    const char* path;
    Json value;
    const char* error;
  };
  const std::vector<Case> cases = {
      {"/schema", 2, "f.json: schema: found 2, expected 1"},
      {"/kind", "poem",
       "f.json: kind: found \"poem\", expected fidelity, needle, ruler, kvretrieval, manyshot, "
       "dataset, agent, premise, neighbours"},
      {"/sets/0/kl/mean", "big", "f.json: sets[0].kl.mean: found \"big\", expected a number"},
      {"/sets/1/same_top", 1.5,
       "f.json: sets[1].same_top: found 1.5, expected a number from 0 to 1"},
      {"/sets/2/kv/evicted", -1,
       "f.json: sets[2].kv.evicted: found -1, expected a number from 0 on"},
      {"/sets/0/trace/1", 7, "f.json: sets[0].trace[1]: found 7, expected an object"},
      {"/sets/0/name", "other",
       "f.json: sets[0].name: found \"other\", expected the name of one of settings"},
      {"/sets/0/confidence/histogram", Json::array(),
       "f.json: sets[0].confidence.histogram: found an array of 0, expected 1 to 1000 numbers"},
      {"/settings/1/name", "full",
       "f.json: settings[1].name: found \"full\", expected a name that is not there yet"},
      {"/model", nullptr, "f.json: model: found null, expected an object"},
  };
  for (const Case& wrong : cases) {
    Json result = fidelity_result();
    result[Json::json_pointer(wrong.path)] = wrong.value;
    EXPECT_EQ(error_of(result), wrong.error);
  }
  Json result = fidelity_result();
  result["sets"][0]["step_ms"].erase("rest");
  EXPECT_EQ(error_of(result), "f.json: sets[0].step_ms.rest: found nothing, expected an object");
}

TEST(Results, NamesTheWrongSample) {
  Json result = needle_result();
  result["samples"][1]["score"] = nullptr;
  EXPECT_EQ(error_of(result),
            "f.json: samples[1].score: found null, expected a number from 0 to 1");
  result = needle_result();
  result["samples"][2]["status"] = "lost";
  EXPECT_EQ(error_of(result),
            "f.json: samples[2].status: found \"lost\", expected ok, error or skipped");
  result = needle_result();
  result["scores"][3]["tags"]["depth"] = {1};
  EXPECT_EQ(error_of(result),
            "f.json: scores[3].tags.depth: found an array of 1, expected a number or a text");
}

TEST(Results, NamesTheWrongFieldOfALayer) {
  struct Case {
    const char* path;
    Json value;
    const char* error;
  };
  const std::vector<Case> cases = {
      {"/layers", Json::array(), "f.json: layers: found an array of 0, expected 1 to 1000"},
      {"/layers/1/distances/reference/far", 2,
       "f.json: layers[1].distances.reference.far: found 2, expected a number from 0 to 1"},
      {"/layers/0/distances/earlier/counts",
       {1, 2},
       "f.json: layers[0].distances.earlier.counts: found an array of 2, expected 3 of them"},
      {"/layers/0/length_ratio/local/v", "x",
       "f.json: layers[0].length_ratio.local.v: found \"x\", expected a number from 0 on"},
      {"/layers/0/spectra/3/part", "whole",
       "f.json: layers[0].spectra[3]: found \"whole\", expected parts, vectors and centring in the "
       "order of the schema"},
      {"/layers/0/spectra/3/energy/2", 1.5,
       "f.json: layers[0].spectra[3].energy[2]: found 1.5, expected a number from 0 to 1"},
      {"/directions",
       {1, 2},
       "f.json: layers[0].spectra[0].energy: found an array of 3, expected 2 of them"},
  };
  for (const Case& wrong : cases) {
    Json result = neighbours_result();
    result[Json::json_pointer(wrong.path)] = wrong.value;
    EXPECT_EQ(error_of(result), wrong.error);
  }
}

TEST(Results, RefusesWhatIsNoResult) {
  EXPECT_EQ(parse_result("", "f").error(), "f: found no JSON, or only the beginning of it");
  EXPECT_EQ(parse_result("[]", "f").error(), "f: found an array of 0, expected an object");
  EXPECT_EQ(parse_result("\"\xff\"", "f").error(), "f: found no JSON, or only the beginning of it");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(parse_result(deep, "f").error(), "f: found more than 32 levels, expected fewer");
  std::string wide = "{\"a\":1";
  for (int i = 0; i < 200'000; ++i) wide += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(parse_result(wide + "}", "f").error(),
            "f: found an object of more than 1000 fields, expected fewer");
}

TEST(Results, ReadsAFileOfAllowedSizeOnly) {
  EXPECT_NE(read_result("/nowhere/f.json").error().find("/nowhere/f.json: cannot be read"),
            std::string::npos);
  const std::string path = testing::TempDir() + "kvasir_results_test.json";
  std::ofstream(path) << needle_result().dump();
  EXPECT_TRUE(read_result(path));
  // Sparse, so that only its length is large.
  std::ofstream(path).seekp(static_cast<std::streamoff>(kMaxResultBytes)).put('x');
  EXPECT_EQ(read_result(path).error(),
            path + ": found 268435457 bytes, expected at most 268435456");
  std::remove(path.c_str());
}

TEST(Results, RefusesEveryPrefix) {
  for (const Json& result : {fidelity_result(), premise_result(), neighbours_result()}) {
    const std::string text = result.dump();
    for (size_t n = 0; n < text.size(); ++n) {
      ASSERT_FALSE(parse_result(std::string_view(text).substr(0, n), "f")) << n;
    }
  }
}

TEST(Results, SurvivesFlippedBytes) {
  std::mt19937_64 random(17);
  int accepted = 0;
  int refused = 0;
  const auto results = all_results();
  for (int round = 0; round < 1500; ++round) {
    const Json& original = results[static_cast<size_t>(round) % results.size()];
    std::string text = original.dump();
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      text[random() % text.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    const auto result = parse_result(text, "f");
    if (!result) {
      ++refused;
      EXPECT_EQ(result.error().find('\n'), std::string::npos);
      continue;
    }
    ++accepted;
    // What was taken can be shown and compared.
    if (accepted % 8 == 0) {
      EXPECT_TRUE(to_html(std::span(&result.value(), 1)));
    }
    const CompareOptions options{"A", "B", true};
    EXPECT_EQ(compare_results(result.value(), original, options).error(), "");
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace kvasir::eval
