#include "eval/tasks/haystack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "eval/tasks/test_texts.h"
#include "eval/tasks/values.h"

namespace kvasir::eval {
namespace {

TEST(Random, IsTheSameOnEveryMachine) {
  SeededRandom random(1, "test");
  EXPECT_EQ(random.digits(7), "9849063");
  EXPECT_EQ(random.uuid(), "5f87db4e-54c0-4b69-b0f9-ab4278aa3d94");
  EXPECT_EQ(random.below(1000), 664U);
  EXPECT_NE(SeededRandom(1, "a").digits(20), SeededRandom(1, "b").digits(20));
  EXPECT_NE(SeededRandom(1, "a").digits(20), SeededRandom(2, "a").digits(20));
}

TEST(Random, CoversItsRanges) {
  SeededRandom random(3, "test");
  std::vector<int> seen(10);
  for (int i = 0; i < 10'000; ++i) ++seen[static_cast<size_t>(random.below(10))];
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.distinct(5, 5), (std::vector<size_t>{0, 1, 2, 3, 4}));
  const std::vector<size_t> some = random.distinct(20, 1000);
  EXPECT_EQ(some.size(), 20U);
  EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
  EXPECT_EQ(std::adjacent_find(some.begin(), some.end()), some.end());
  std::vector<int> values(50);
  std::iota(values.begin(), values.end(), 0);
  std::vector<int> shuffled = values;
  random.shuffle(shuffled);
  EXPECT_NE(shuffled, values);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, values);
}

TEST(Values, NeverRepeatAndKeepOutOfTheHaystack) {
  // Three words make nine pairs; one of them stands in the haystack, another is in it in capitals.
  const std::vector<std::string> words = {"tree", "house", "river", "O'Brien", "Capital", "ox"};
  ValueSource source(SeededRandom(1, "test"), words, "a tree-house by the RIVER-river");
  std::vector<std::string> drawn;
  for (int i = 0; i < 7; ++i) drawn.push_back(source.value(ValueKind::kWord).value());
  std::sort(drawn.begin(), drawn.end());
  EXPECT_EQ(drawn,
            (std::vector<std::string>{"house-house", "house-river", "house-tree", "river-house",
                                      "river-tree", "tree-river", "tree-tree"}));
  EXPECT_EQ(source.value(ValueKind::kWord).error(),
            "cannot find another word after 7: the list of words is too short for this length");
}

TEST(Values, SayHowManyWordsThereAre) {
  const std::vector<std::string> words = {"tree", "ox"};
  ValueSource source(SeededRandom(1, "test"), words, "");
  EXPECT_EQ(source.word().value(), "tree");
  EXPECT_EQ(source.word().error(),
            "the list of words is too short: it has 1 words of 4 to 12 lower-case letters, 1 of "
            "them were used and more are needed");
}

TEST(Values, HaveTheirForm) {
  ValueSource source(SeededRandom(1, "test"), {}, "");
  const std::string number = source.value(ValueKind::kNumber).value();
  EXPECT_EQ(number.size(), 7U);
  EXPECT_NE(number[0], '0');
  EXPECT_EQ(source.value(ValueKind::kDigits64).value().size(), 64U);
  const std::string uuid = source.value(ValueKind::kUuid).value();
  EXPECT_EQ(uuid.size(), 36U);
  EXPECT_EQ(uuid[14], '4');
  EXPECT_EQ(std::count(uuid.begin(), uuid.end(), '-'), 4);
  EXPECT_EQ(find_value_kind("digits64").value(), ValueKind::kDigits64);
  EXPECT_EQ(find_value_kind("digit").error(),
            "no kind of value 'digit', expected one of: number, word, uuid, digits64");
}

TEST(Sentences, EndWithMarksOrAfterSixtyWords) {
  EXPECT_EQ(split_sentences("One  two.\n\"Three?\" Four 3.5 five!  six"),
            (std::vector<std::string>{"One two.", "\"Three?\"", "Four 3.5 five!", "six"}));
  std::string endless;
  for (int i = 0; i < 130; ++i) endless += "word ";
  const std::vector<std::string> cut = split_sentences(endless);
  ASSERT_EQ(cut.size(), 3U);
  EXPECT_EQ(count_words(cut[0]), 60);
  EXPECT_EQ(count_words(cut[2]), 10);
  EXPECT_TRUE(split_sentences(" \n").empty());
}

TEST(Sentences, RepeatFromASeededPlace) {
  SeededRandom random(1, "test");
  const SentenceSource source("A b c. D e, f. G.", random);
  const std::vector<std::string> twice = source.take(14);
  ASSERT_EQ(twice.size(), 6U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(twice[i], twice[i + 3]);
  std::set<std::string> first;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SeededRandom other(seed, "test");
    first.insert(SentenceSource("A b c. D e, f. G.", other).take(3)[0]);
  }
  EXPECT_EQ(first.size(), 3U);
  std::string all;
  for (const std::string& sentence : twice) all += sentence;
  EXPECT_EQ(occurrences(all, "A b c."), 2U);
  int64_t words = 0;
  for (int64_t asked = 1; asked < 10; ++asked) {
    words = 0;
    for (const std::string& sentence : source.take(asked)) {
      words += count_words(sentence);
      EXPECT_EQ(sentence.back(), '.');
      EXPECT_EQ(sentence.find(",."), std::string::npos);
    }
    EXPECT_EQ(words, asked);
  }
}

TEST(Needles, StandAtTheNearestBoundary) {
  const std::vector<std::string> sentences = {"Aaaa.", "Bbbb.", "Cccc.", "Dddd."};
  const auto at = [&](double depth) {
    const std::vector<Placed> needles = {{.sentence = "N.", .depth = depth}};
    return insert_needles(sentences, needles, " ");
  };
  EXPECT_EQ(at(0), "N. Aaaa. Bbbb. Cccc. Dddd.");
  EXPECT_EQ(at(0.12), "N. Aaaa. Bbbb. Cccc. Dddd.");
  EXPECT_EQ(at(0.13), "Aaaa. N. Bbbb. Cccc. Dddd.");
  EXPECT_EQ(at(0.5), "Aaaa. Bbbb. N. Cccc. Dddd.");
  EXPECT_EQ(at(1), "Aaaa. Bbbb. Cccc. Dddd. N.");
  const std::vector<Placed> pair = {{.sentence = "First", .depth = 0.5},
                                    {.sentence = "Second", .depth = 0.5}};
  EXPECT_EQ(insert_needles(sentences, pair, "\n"), "Aaaa.\nBbbb.\nFirst\nSecond\nCccc.\nDddd.");
}

}  // namespace
}  // namespace kvasir::eval
