#include "kernels/read_loop.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/kernels.h"

namespace kvasir {
namespace {

// Whole numbers below 2^24, so that every order of additions gives the same sum.
TEST(ReadLoop, ReadsEveryFloatOnce) {
  for (const ReadLoop& loop : read_loops()) {
    for (const size_t steps : {1U, 2U, 5U}) {
      std::vector<float> data(steps * kReadStep);
      float sum = 0;
      for (size_t i = 0; i < data.size(); ++i) sum += data[i] = static_cast<float>(i % 97);
      EXPECT_EQ(loop.sum(data.data(), data.size()), sum) << loop.name << ", " << data.size();
    }
  }
}

TEST(ReadLoop, HasOneForEachTable) {
  const auto loops = read_loops();
  const auto tables = supported_kernels();
  ASSERT_EQ(loops.size(), tables.size());
  for (size_t i = 0; i < loops.size(); ++i) EXPECT_STREQ(loops[i].name, tables[i]->name);
}

}  // namespace
}  // namespace kvasir
