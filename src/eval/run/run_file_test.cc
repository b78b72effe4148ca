#include "eval/run/run_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace kvasir::eval {
namespace {

namespace fs = std::filesystem;

class RunFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kvasir_run_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "out.json").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string content(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static RunFile open(const std::string& path, const Json& identity) {
    auto file = RunFile::open(path, identity);
    EXPECT_TRUE(file) << file.error();
    return std::move(file.value());
  }

  fs::path folder_;
  std::string path_;
  const Json identity_ = {{"kind", "needle"}, {"model", "a"}};
};

TEST_F(RunFileTest, ContinuesWhereItStopped) {
  {
    RunFile file = open(path_, identity_);
    ASSERT_TRUE(file.add("one", {{"score", 1}}, 2.5));
    ASSERT_TRUE(file.add("two", {{"score", 0}}, 1.5));
  }
  RunFile file = open(path_, identity_);
  EXPECT_EQ(file.n_found(), 2U);
  EXPECT_EQ(file.seconds_before(), 4);
  ASSERT_NE(file.find("one"), nullptr);
  EXPECT_EQ(file.find("one")->at("score"), 1);
  EXPECT_EQ(file.find("three"), nullptr);
  ASSERT_TRUE(file.add("three", {{"score", 0.5}}, 1));
  ASSERT_TRUE(file.finish({{"samples", 3}}));
  EXPECT_EQ(Json::parse(content(path_)).at("samples"), 3);
  EXPECT_FALSE(fs::exists(path_ + ".partial"));
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

TEST_F(RunFileTest, DropsALineThatWasCut) {
  {
    RunFile file = open(path_, identity_);
    ASSERT_TRUE(file.add("one", {{"score", 1}}, 1));
    ASSERT_TRUE(file.add("two", {{"score", 0}}, 1));
  }
  fs::resize_file(path_ + ".partial", fs::file_size(path_ + ".partial") - 5);
  {
    RunFile file = open(path_, identity_);
    EXPECT_NE(file.find("one"), nullptr);
    EXPECT_EQ(file.find("two"), nullptr);
    ASSERT_TRUE(file.add("two", {{"score", 0.25}}, 1));
  }
  RunFile file = open(path_, identity_);
  ASSERT_NE(file.find("two"), nullptr);
  EXPECT_EQ(file.find("two")->at("score"), 0.25);
}

TEST_F(RunFileTest, NeverOverwritesAFinishedResult) {
  std::ofstream(path_) << "precious";
  auto refused = RunFile::open(path_, identity_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("exists and is not overwritten"), std::string::npos);
  fs::remove(path_);
  RunFile file = open(path_, identity_);
  std::ofstream(path_) << "precious";  // another run was faster
  EXPECT_FALSE(file.finish({{"samples", 1}}));
  EXPECT_EQ(content(path_), "precious");
}

TEST_F(RunFileTest, RefusesThePartialFileOfAnotherRun) {
  {
    RunFile file = open(path_, identity_);
    auto second = RunFile::open(path_, identity_);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().find("another run is writing"), std::string::npos) << second.error();
  }
  auto other = RunFile::open(path_, {{"kind", "needle"}, {"model", "b"}});
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().find("model is \"a\", not \"b\""), std::string::npos) << other.error();
  std::ofstream(path_ + ".partial") << "garbage\n";
  auto garbage = RunFile::open(path_, identity_);
  ASSERT_FALSE(garbage);
  EXPECT_NE(garbage.error().find(".partial:1: not a line"), std::string::npos) << garbage.error();
}

TEST_F(RunFileTest, BytesThatAreNoTextDoNotStopARun) {
  const Json identity = {{"set", "\xff"}};
  {
    RunFile file = open(path_, identity);
    ASSERT_TRUE(file.add("one", {{"prediction", "caf\xc3"}}, 1));
  }
  RunFile file = open(path_, identity);
  ASSERT_NE(file.find("one"), nullptr);
  EXPECT_EQ(file.find("one")->at("prediction"), "caf\xEF\xBF\xBD");
  EXPECT_TRUE(file.finish({{"text", "\xff"}}));
}

TEST_F(RunFileTest, EntriesOfAnotherShapeAreRefused) {
  for (const char* line : {R"({"key":"a","entry":5,"seconds":1})",
                           R"({"key":"a","entry":{},"seconds":"x"})", R"({"key":1,"entry":{}})"}) {
    std::ofstream(path_ + ".partial") << dump_json({{"run", identity_}}) << "\n" << line << "\n";
    auto refused = RunFile::open(path_, identity_);
    ASSERT_FALSE(refused) << line;
    EXPECT_NE(refused.error().find(".partial:2: not a line"), std::string::npos);
  }
}

TEST_F(RunFileTest, WithoutAPathNothingIsWritten) {
  RunFile file = open("", identity_);
  ASSERT_TRUE(file.add("one", {{"score", 1}}, 1));
  EXPECT_NE(file.find("one"), nullptr);
  EXPECT_TRUE(file.finish({}));
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_FALSE(RunFile::open((folder_ / "no" / "x.json").string(), identity_));
}

}  // namespace
}  // namespace kvasir::eval
