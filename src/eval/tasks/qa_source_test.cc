#include "eval/tasks/qa_source.h"

#include <gtest/gtest.h>

#include "eval/tasks/test_texts.h"

namespace kvasir::eval {
namespace {

using nlohmann::json;

TEST(Squad, IsReadWithoutTheImpossible) {
  const Result<QaSource> source = parse_qa(made_up_squad().dump(), "dev.json");
  ASSERT_TRUE(source) << source.error();
  EXPECT_EQ(source.value().documents.size(), 400U);
  ASSERT_EQ(source.value().items.size(), 400U);  // of 800 questions
  const QaItem& item = source.value().items[21];
  ASSERT_EQ(item.gold.size(), 1U);
  EXPECT_EQ(item.near.size(), 19U);
  EXPECT_EQ(item.answers.size(), 1U);  // given twice in the file
  EXPECT_NE(source.value().documents[item.gold[0]].find(item.answers[0]), std::string::npos);
}

TEST(Squad, OfVersionOneHasNoImpossible) {
  json root = made_up_squad();
  for (json& article : root["data"]) {
    for (json& paragraph : article["paragraphs"]) {
      paragraph["qas"].erase(1);
      paragraph["qas"][0].erase("is_impossible");
    }
  }
  const Result<QaSource> source = parse_qa(root.dump(), "dev.json");
  ASSERT_TRUE(source) << source.error();
  EXPECT_EQ(source.value().items.size(), 400U);
}

TEST(Hotpot, IsReadWithTwoGoldParagraphs) {
  const Result<QaSource> source = parse_qa(made_up_hotpot().dump(), "hotpot.json");
  ASSERT_TRUE(source) << source.error();
  ASSERT_EQ(source.value().items.size(), 40U);
  EXPECT_EQ(source.value().documents.size(), 400U);
  const QaItem& item = source.value().items[1];
  EXPECT_EQ(item.gold, (std::vector<size_t>{13, 17}));
  EXPECT_EQ(item.near.size(), 8U);
  EXPECT_EQ(source.value().documents[13].rfind("Title", 0), 0U);
  EXPECT_NE(source.value().documents[13].find(item.answers[0]), std::string::npos);
}

std::string error_of(const json& root) { return parse_qa(root.dump(), "f").error(); }

TEST(Squad, NamesThePlaceOfAWrongField) {
  json root = made_up_squad();
  root["data"][3]["paragraphs"][2]["context"] = 5;
  EXPECT_EQ(error_of(root), "f: data[3].paragraphs[2].context: found a number, expected a string");
  root = made_up_squad();
  root["data"][3]["paragraphs"][2]["qas"][0].erase("question");
  EXPECT_EQ(error_of(root), "f: data[3].paragraphs[2].qas[0].question: missing");
  root = made_up_squad();
  root["data"][1]["paragraphs"] = {{"a", 1}};
  EXPECT_EQ(error_of(root), "f: data[1].paragraphs: found an object, expected an array");
  root = made_up_squad();
  root["data"][1]["paragraphs"][0]["qas"][0]["answers"][1] = "text";
  EXPECT_EQ(error_of(root),
            "f: data[1].paragraphs[0].qas[0].answers[1]: found a string, expected an object");
  root = made_up_squad();
  root["data"][1]["paragraphs"][0]["qas"][0]["answers"] = json::array();
  EXPECT_EQ(error_of(root),
            "f: data[1].paragraphs[0].qas[0].answers: found none, expected one or more");
  root = made_up_squad();
  root["data"][0]["paragraphs"][0]["qas"][0]["is_impossible"] = "no";
  EXPECT_EQ(error_of(root),
            "f: data[0].paragraphs[0].qas[0].is_impossible: expected true or false");
}

TEST(Hotpot, NamesThePlaceOfAWrongField) {
  json root = made_up_hotpot();
  root[7].erase("answer");
  EXPECT_EQ(error_of(root), "f: [7].answer: missing");
  root = made_up_hotpot();
  root[7]["context"][2][1][0] = nullptr;
  EXPECT_EQ(error_of(root), "f: [7].context[2][1][0]: found null, expected a string");
  root = made_up_hotpot();
  root[7]["context"][2] = "title";
  EXPECT_EQ(error_of(root), "f: [7].context[2]: expected an array of a title and one more element");
  root = made_up_hotpot();
  root[7]["supporting_facts"] = json::array({json::array({"Elsewhere", 0})});
  EXPECT_EQ(error_of(root), "f: [7].supporting_facts: found no title of context among them");
}

TEST(Qa, RefusesOtherFiles) {
  EXPECT_EQ(parse_qa("{\"a\": 1}", "f").error(),
            "f: expected an object with \"data\" (SQuAD) or an array (HotpotQA)");
  EXPECT_EQ(parse_qa("[]", "f").error(), "f: found no question with an answer");
  const std::string cut = parse_qa("{\"data\": [", "f").error();
  EXPECT_NE(cut.find("f: parse error at line 1, column 11"), std::string::npos) << cut;
}

}  // namespace
}  // namespace kvasir::eval
