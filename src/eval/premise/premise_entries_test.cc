#include "eval/premise/premise_entries.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

namespace kvasir::eval {
namespace {

class PremiseEntries : public testing::Test {
 protected:
  PremiseEntries() {
    std::filesystem::remove(path_ + ".partial");
    plan_.tokens.assign(100, 1);
    plan_.prefix = 40;
    plan_.every = 10;
    plan_.hidden = 20;
    plan_.temperatures = {0, 1};
  }
  ~PremiseEntries() override { std::filesystem::remove(path_ + ".partial"); }

  static PremisePoint point(int32_t position) {
    PremisePoint p;
    p.position = position;
    p.kl = 0.1 * position;
    p.c = 1.0 / 3;
    p.entropy = 2.5;
    p.p1 = 0.25;
    p.margin = 0.125;
    p.c_at = {1, 1.0 / 3};
    return p;
  }

  std::string path_ = testing::TempDir() + "premise_entries.json";
  PremisePlan plan_;
};

TEST_F(PremiseEntries, ARunThatStoppedGoesOnAfterItsLastPoint) {
  const Json identity = {{"run", 1}};
  {
    auto file = RunFile::open(path_, identity);
    ASSERT_TRUE(file) << file.error();
    EXPECT_TRUE(points_of(file.value(), plan_).empty());
    ASSERT_TRUE(add_point(file.value(), point(40), 0.5));
    ASSERT_TRUE(add_point(file.value(), point(50), 0.5));
  }
  auto file = RunFile::open(path_, identity);
  ASSERT_TRUE(file) << file.error();
  EXPECT_EQ(file.value().seconds_before(), 1.0);
  const auto points = points_of(file.value(), plan_);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[1].position, 50);
  EXPECT_EQ(points[1].kl, point(50).kl) << "to the last bit";
  EXPECT_EQ(points[1].c_at, point(50).c_at);
  EXPECT_EQ(plan_.position(static_cast<int32_t>(points.size())), 60);
}

TEST_F(PremiseEntries, AHoleEndsWhatIsDone) {
  auto file = RunFile::open("", {});
  ASSERT_TRUE(file);
  ASSERT_TRUE(add_point(file.value(), point(40), 0));
  ASSERT_TRUE(add_point(file.value(), point(60), 0));
  EXPECT_EQ(points_of(file.value(), plan_).size(), 1U);
}

TEST_F(PremiseEntries, AnInfiniteMarginStaysOne) {
  auto file = RunFile::open("", {});
  ASSERT_TRUE(file);
  PremisePoint sure = point(40);
  sure.margin = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(add_point(file.value(), sure, 0));
  EXPECT_TRUE(std::isinf(points_of(file.value(), plan_).at(0).margin));
}

}  // namespace
}  // namespace kvasir::eval
