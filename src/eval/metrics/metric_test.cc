#include "eval/metrics/metric.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "eval/metrics/score.h"

namespace kvasir::eval {
namespace {

double score(const std::string& metric, std::string_view prediction,
             std::vector<std::string> references, std::vector<std::string> classes = {}) {
  Question question;
  question.metric = metric;
  question.references = std::move(references);
  question.classes = std::move(classes);
  const auto result = score_answer(prediction, question);
  EXPECT_TRUE(result) << result.error();
  return result ? result.value() : -1;
}

TEST(Metrics, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const auto& metric : metrics()) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_FALSE(metric.text.empty()) << metric.name;
    EXPECT_EQ(find_metric(metric.name), &metric);
  }
  EXPECT_EQ(find_metric("f2"), nullptr);
}

TEST(Metrics, GiveNothingForNothing) {
  for (const auto& metric : metrics()) {
    Question question;
    EXPECT_EQ(metric.score("an answer", question), 0) << metric.name;  // no references
    question.references = {"Paragraph 7"};
    question.classes = {"Paragraph 7"};
    EXPECT_EQ(metric.score("", question), 0) << metric.name;
  }
}

// Whatever a model writes, the score is a number in [0, 1].
TEST(Metrics, BearAnyBytes) {
  for (const auto& metric : metrics()) {
    Question question;
    question.references = {"\xFF", "段落7", "{\\boxed{3}", "-", "A", ""};
    question.classes = {"", "A"};
    for (const char* text :
         {"\xE6\xAE", "\\boxed{", "\\boxed{{}", "-", "(", "\n\n", "...", "段落", "A", "answer is",
          "\xF0\x9F\x98", "99999999999999999999999999999999.9"}) {
      const double value = metric.score(text, question);
      EXPECT_TRUE(value >= 0 && value <= 1) << metric.name << " of " << text;
    }
  }
}

TEST(Found, CountsReferencesWhateverTheCase) {
  const std::vector<std::string> names = {"Sobek", "Écija", "blue lamp"};
  EXPECT_DOUBLE_EQ(score("all_found", "sobek of ÉCIJA", names), 2.0 / 3);
  EXPECT_EQ(score("all_found", "Blue lamp, écija, SOBEK", names), 1);
  EXPECT_EQ(score("any_found", "a BLUE LAMP", names), 1);
  EXPECT_EQ(score("any_found", "a blue  lamp", names), 0);
  EXPECT_EQ(score("any_found", "text", {""}), 0);
}

TEST(F1, CountsSharedWordsOnce) {
  // Two of the prediction's three words and two of the reference's two.
  EXPECT_DOUBLE_EQ(score("f1", "The harbour-master, Ines Duarte!", {"Ines Duarte"}), 0.8);
  EXPECT_DOUBLE_EQ(score("f1", "red red red", {"red"}), 0.5);
  EXPECT_DOUBLE_EQ(score("f1", "a green door", {"in Lima", "the Green Door."}), 1);
  EXPECT_EQ(score("f1", "the", {"the"}), 0);  // nothing is left to compare
}

TEST(F1, TakesArticlesOutAsWholeWordsOnly) {
  EXPECT_DOUBLE_EQ(score("f1", "another theme", {"other me"}), 0);
  EXPECT_DOUBLE_EQ(score("f1", "“the” door", {"“ ” door"}), 1);
}

TEST(F1Zh, CountsCharacters) {
  EXPECT_DOUBLE_EQ(score("f1_zh", "五月 开放。", {"五月开放"}), 1);
  EXPECT_DOUBLE_EQ(score("f1_zh", "五月", {"五月开放"}), 2.0 * 1 * 0.5 / 1.5);
  EXPECT_EQ(score("f1_zh", "，。", {"，。"}), 0);
}

TEST(RougeL, CountsDifferentWordsOfSentences) {
  EXPECT_NEAR(score("rouge_l", "costs fell in May", {"costs fell in May"}), 1, 1e-7);
  // Common: "costs", "fell". 2 of 3 and 2 of 4 words.
  EXPECT_NEAR(score("rouge_l", "costs fell again", {"the costs fell sharply"}),
              2 * (2.0 / 3) * 0.5 / (2.0 / 3 + 0.5), 1e-7);
  // A word said twice is one word: {no, yes} against {no}.
  EXPECT_NEAR(score("rouge_l", "no no no yes", {"no"}), 2 * 0.5 / 1.5, 1e-7);
  EXPECT_EQ(score("rouge_l", "...", {"costs fell"}), 0);
  EXPECT_NEAR(score("rouge_l_zh", "大桥五月开放", {"大桥开放"}), 2 * (4.0 / 6) / (1 + 4.0 / 6),
              1e-7);
}

TEST(ClassMatch, DividesByTheClassesNamed) {
  const std::vector<std::string> classes = {"Number", "Number of something", "City", "Food"};
  EXPECT_EQ(score("class_match", "City", {"City"}, classes), 1);
  EXPECT_DOUBLE_EQ(score("class_match", "City or Food", {"City"}, classes), 0.5);
  EXPECT_EQ(score("class_match", "Number of something", {"Number of something"}, classes), 1);
  EXPECT_DOUBLE_EQ(score("class_match", "Number of something", {"Number"}, classes), 0.5);
  EXPECT_EQ(score("class_match", "Food", {"City"}, classes), 0);
}

TEST(Retrieval, CountsTheNumbersNamed) {
  EXPECT_EQ(score("retrieval", "Paragraph 12", {"Paragraph 12"}), 1);
  EXPECT_DOUBLE_EQ(score("retrieval", "Paragraph 12 or 3", {"Paragraph 12"}), 0.5);
  EXPECT_EQ(score("retrieval", "Paragraph 1", {"Paragraph 12"}), 0);
  EXPECT_EQ(score("retrieval", "12", {"twelve"}), 0);
  EXPECT_DOUBLE_EQ(score("retrieval_zh", "段落4，不是段落5", {"段落4"}), 0.5);
}

TEST(Count, TakesTheShareOfRightNumbers) {
  EXPECT_EQ(score("count", "There are 8 of them.", {"8"}), 1);
  EXPECT_DOUBLE_EQ(score("count", "8, 9, 8 or 10", {"8"}), 0.5);
  EXPECT_EQ(score("count", "08", {"8"}), 0);
}

TEST(CodeEdit, TakesTheFirstLineOfCode) {
  EXPECT_EQ(score("code_edit", "\n```python\n# first\nreturn x\nreturn y", {"return x"}), 1);
  // "return " is common: 7 of 8 and 7 of 8 characters.
  EXPECT_DOUBLE_EQ(score("code_edit", "return y", {"return x"}), 14.0 / 16);
  EXPECT_EQ(score("code_edit", "// only a comment", {"return x"}), 0);
  EXPECT_EQ(score("code_edit", "\n\nint a;", {"int a;"}), 1);
}

TEST(Exact, IgnoresCaseSignsAndArticles) {
  EXPECT_EQ(score("exact", "The Blue lamp.", {"green lamp", "blue lamp"}), 1);
  EXPECT_EQ(score("exact", "blue lamps", {"blue lamp"}), 0);
}

TEST(Boxed, TakesTheLastThatCloses) {
  EXPECT_EQ(score("boxed", "First \\boxed{12}, no: $\\boxed{073}$.", {"73"}), 1);
  EXPECT_EQ(score("boxed", "\\boxed{73} and \\boxed{12}", {"73"}), 0);
  EXPECT_EQ(score("boxed", "\\boxed{73} so \\boxed{12", {"73"}), 1);
  EXPECT_EQ(score("boxed", "the answer is 73", {"73"}), 0);
  EXPECT_EQ(score("boxed", "\\boxed{1,024}", {"1024"}), 1);
  EXPECT_EQ(score("boxed", "\\boxed{\\frac{1}{2}}", {"$\\frac{1}{2}$"}), 1);
  EXPECT_EQ(score("boxed", "\\boxed{ \\left( 3, -4 \\right) }", {"(3,-4)"}), 1);
  EXPECT_EQ(score("boxed", "\\boxed{-7}", {"7"}), 0);
  EXPECT_EQ(score("boxed", "\\boxed{}", {""}), 0);
}

TEST(FirstNumber, ComparesNumbers) {
  EXPECT_EQ(score("first_number", "It is 42, not 7.", {"42"}), 1);
  EXPECT_EQ(score("first_number", "7 or 42", {"42"}), 0);
  EXPECT_EQ(score("first_number", "42.9", {"42"}), 1);
  EXPECT_EQ(score("first_number", "3.50", {"3.5"}), 1);
  EXPECT_EQ(score("first_number", "3", {"3.5"}), 0);
  EXPECT_EQ(score("first_number", "the sum is -8", {"-8"}), 1);
  EXPECT_EQ(score("first_number", "the sum is -8", {"8"}), 0);
  EXPECT_EQ(score("first_number", "a5-8", {"5"}), 1);
  EXPECT_EQ(score("first_number", "row-8", {"8"}), 1);  // no sign: it follows a letter
  EXPECT_EQ(score("first_number", "none", {"5"}), 0);
}

TEST(Choice, FindsTheLetterMeant) {
  const std::vector<std::string> references = {"At the mill", "B"};
  EXPECT_EQ(score("choice", " B. At the mill", references), 1);
  EXPECT_EQ(score("choice", "(B)", references), 1);
  EXPECT_EQ(score("choice", "B, though some say the answer is C", references), 1);
  EXPECT_EQ(score("choice", "at the mill.", references), 1);
  EXPECT_EQ(score("choice", "Not C: the answer is B.", references), 1);
  EXPECT_EQ(score("choice", "I think it is B", references), 1);
  EXPECT_EQ(score("choice", "Because of C", references), 0);
  EXPECT_EQ(score("choice", "C", references), 0);
  EXPECT_EQ(score("choice", "none", references), 0);
}

TEST(ScoreAnswer, CutsToTheFirstLineWhereAsked) {
  Question question;
  question.metric = "f1";
  question.references = {"Lima"};
  EXPECT_DOUBLE_EQ(score_answer("\n\nLima\nQuito", question).value(), 2.0 / 3);
  question.first_line_only = true;
  EXPECT_DOUBLE_EQ(score_answer("\n\nLima\nQuito", question).value(), 1);
  EXPECT_EQ(first_line("\n\n"), "");
}

TEST(ScoreAnswer, RefusesAnUnknownMetric) {
  Question question;
  question.metric = "f2";
  const auto result = score_answer("Lima", question);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().find("no metric 'f2', expected one of: all_found, any_found, f1"), 0U);
}

}  // namespace
}  // namespace kvasir::eval
