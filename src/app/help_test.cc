#include "app/help.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cache/options.h"

namespace kvasir::app {
namespace {

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Help, WrapsAtBlanksAndIndents) {
  EXPECT_EQ(wrap("one two three", 2, 9), "  one two\n  three\n");
  EXPECT_EQ(wrap("unbreakable ab", 2, 9), "  unbreakable\n  ab\n");
  EXPECT_EQ(wrap("", 2), "");
  EXPECT_EQ(wrap("exactly nine", 0, 12), "exactly nine\n");
}

TEST(Help, FitsAHundredColumns) {
  expect_narrow(program_help());
  expect_narrow(doctor_help());
  for (const FrontEnd& entry : front_ends()) expect_narrow(front_end_help(entry));
}

TEST(Help, NamesEveryCommandAndEveryFlag) {
  const std::string text = program_help();
  for (const FrontEnd& entry : front_ends()) {
    EXPECT_NE(text.find("\n  " + std::string(entry.name) + " "), std::string::npos) << entry.name;
  }
  for (const OwnCommand& command : own_commands()) {
    EXPECT_NE(text.find("\n  " + std::string(command.name) + " "), std::string::npos);
  }
  for (const FlagHelp& flag : flag_help()) {
    EXPECT_NE(text.find("\n  " + std::string(flag.name)), std::string::npos) << flag.name;
  }
}

TEST(Help, QuantizeHasNoFlagsOfTheCache) {
  EXPECT_EQ(front_end_help(front_end(Command::kQuantize)).find("--kv-"), std::string::npos);
  EXPECT_NE(front_end_help(front_end(Command::kRun)).find("--kv-policy"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::app
