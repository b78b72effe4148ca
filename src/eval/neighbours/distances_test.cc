#include "eval/neighbours/distances.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvasir::eval {
namespace {

using Counts = decltype(Distances::counts);

TEST(Distances, BinsEndWhereTheySay) {
  Distances distances;
  for (const int32_t distance : {1, 4, 5, 16, 17, 64, 65, 256, 257, 1024, 1025, 100000}) {
    distances.add(distance);
  }
  EXPECT_EQ(distances.counts, (Counts{2, 2, 2, 2, 2, 2}));
  EXPECT_DOUBLE_EQ(distances.far(), 8.0 / 12) << "16 is near, 17 far";
  EXPECT_EQ(Distances{}.far(), 0);
}

TEST(Distances, OfWhatWasFound) {
  std::vector<int32_t> found(100, -1);
  found[1] = 0;    // 1
  found[50] = 34;  // 16
  found[60] = 43;  // 17
  found[99] = 0;   // 99
  EXPECT_EQ(distances_of(found).counts, (Counts{1, 1, 1, 1, 0, 0}));
}

TEST(Distances, OfTheFirstChosenOrAllOfThem) {
  const Parted parted = part_tokens({1, 30, 2}, 33);  // references 0, 1, 31
  Chosen chosen{2, std::vector<int32_t>(parted.others.size() * 2, -1)};
  chosen.tokens[0] = 1;  // of token 2
  chosen.tokens[1] = 0;
  ASSERT_EQ(parted.others.back(), 32);
  chosen.tokens[chosen.tokens.size() - 2] = 31;
  chosen.tokens[chosen.tokens.size() - 1] = 1;
  EXPECT_EQ(distances_of(parted, chosen, 1).counts, (Counts{2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(distances_of(parted, chosen, 2).counts, (Counts{3, 0, 1, 0, 0, 0}));
}

// Every pair counted once.
TEST(Distances, ByChance) {
  const int32_t n = 150;
  const Parted parted = part_tokens({3, 7, 2}, n);
  double earlier = 0, references = 0;
  for (int32_t token = 1; token < n; ++token) {
    int32_t far = 0;
    for (int32_t other = 0; other < token; ++other) far += token - other > kFar ? 1 : 0;
    earlier += static_cast<double>(far) / token / (n - 1);
  }
  for (const int32_t token : parted.others) {
    int32_t far = 0, visible = 0;
    for (const int32_t reference : parted.references) {
      visible += reference < token ? 1 : 0;
      far += token - reference > kFar ? 1 : 0;
    }
    references += static_cast<double>(far) / visible / static_cast<double>(parted.others.size());
  }
  EXPECT_NEAR(far_by_chance(n), earlier, 1e-12);
  EXPECT_NEAR(far_by_chance(parted), references, 1e-12);
  EXPECT_EQ(far_by_chance(1), 0);
}

}  // namespace
}  // namespace kvasir::eval
