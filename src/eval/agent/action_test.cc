#include "eval/agent/action.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/agent/random.h"

namespace kvasir::eval::agent {
namespace {

TEST(Action, ReadsEachForm) {
  const auto clicked = parse_action("click[12]");
  ASSERT_TRUE(clicked) << clicked.error();
  EXPECT_EQ(clicked.value().kind, ActionKind::kClick);
  EXPECT_EQ(clicked.value().element, 12);
  const auto typed = parse_action("  type[13][a [b] c]  ");
  ASSERT_TRUE(typed) << typed.error();
  EXPECT_EQ(typed.value().kind, ActionKind::kType);
  EXPECT_EQ(typed.value().element, 13);
  EXPECT_EQ(typed.value().text, "a [b] c");
  ASSERT_TRUE(parse_action("type[1][]")) << "empties a field";
  EXPECT_EQ(parse_action("search[ blue kettle ]").value().text, "blue kettle");
  EXPECT_EQ(parse_action("back").value().kind, ActionKind::kBack);
  EXPECT_EQ(parse_action("answer[3]").value().kind, ActionKind::kAnswer);
}

TEST(Action, WritesWhatItReads) {
  EXPECT_EQ(parse_action(click(7)).value().element, 7);
  const auto typed = parse_action(type(8, "x, y"));
  EXPECT_EQ(typed.value().element, 8);
  EXPECT_EQ(typed.value().text, "x, y");
  EXPECT_EQ(parse_action(search("x")).value().kind, ActionKind::kSearch);
  EXPECT_EQ(parse_action(answer("x")).value().text, "x");
}

TEST(Action, RefusesTheRestInOneLine) {
  for (const std::string line : {"",
                                 " ",
                                 "click",
                                 "click[]",
                                 "click[a]",
                                 "click[-1]",
                                 "click[1",
                                 "click[1] now",
                                 "click[1][2]",
                                 "click[9999999]",
                                 "type[1]",
                                 "type[1][x",
                                 "type[x][y]",
                                 "type[1] [y]",
                                 "search[]",
                                 "search[ ]",
                                 "answer[",
                                 "answer",
                                 "back[1]",
                                 "Click[1]",
                                 "click[1]\nback",
                                 "click [1]"}) {
    const auto action = parse_action(line);
    EXPECT_FALSE(action) << line;
    EXPECT_EQ(action.error().find('\n'), std::string::npos);
    EXPECT_NE(action.error().find("type[NUMBER][TEXT]"), std::string::npos);
  }
  EXPECT_EQ(excerpt("ab\ncd", 4), "ab?c...");
  EXPECT_EQ(excerpt("ab\xC3\xA9", 3), "ab...") << "letters are not cut";
  EXPECT_EQ(excerpt("ab\xC3\xA9", 4), "ab\xC3\xA9");
  const auto action = parse_action(std::string(5000, 'x'));
  EXPECT_LT(action.error().size(), 250U);
}

TEST(Action, LineIsFoundInAReply) {
  EXPECT_EQ(action_line("click[1]"), "click[1]");
  EXPECT_EQ(action_line("\n\n  Action: click[1]\nbecause"), "click[1]");
  EXPECT_EQ(action_line("<think>click[2]</think>\n`back`"), "back");
  EXPECT_EQ(action_line("`answer[`x`]`"), "answer[`x`]");
  EXPECT_EQ(action_line(""), "");
  EXPECT_EQ(action_line("``"), "");
}

TEST(Action, SurvivesEveryPrefixAndRandomBytes) {
  size_t read = 0;
  const auto feed = [&](const std::string& text) {
    const auto action = parse_action(action_line(text));
    if (action) {
      ++read;
    } else {
      EXPECT_EQ(action.error().find('\n'), std::string::npos);
    }
  };
  for (const std::string whole :
       {"Action: `type[13][a [b] c]`", "<think>x</think>\nclick[12]", "answer[a, b]", "back"}) {
    for (size_t size = 0; size <= whole.size(); ++size) feed(whole.substr(0, size));
  }
  EXPECT_GE(read, 4U);
  Random random(3);
  const std::string pieces = "[]0123456789 \n`clicktypeback";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random.below(2) == 0 ? "type[1][" : "";
    for (size_t size = random.below(24); size > 0; --size) {
      text += random.below(3) == 0 ? static_cast<char>(random.below(256)) : random.pick(pieces);
    }
    feed(text);
  }
}

}  // namespace
}  // namespace kvasir::eval::agent
