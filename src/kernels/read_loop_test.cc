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

// Tables that differ in their dot products alone share the loop of their vectors.
TEST(ReadLoop, HasOneForEachWidthOfVectors) {
  for (const ReadLoop& loop : read_loops()) EXPECT_NE(find_kernels(loop.name), nullptr);
  for (const KvKernels* table : supported_kernels()) {
    const std::string_view name = table->name;
    const std::string_view vectors = name.substr(0, name.find('_'));
    EXPECT_TRUE(std::any_of(read_loops().begin(), read_loops().end(), [&](const ReadLoop& loop) {
      return loop.name == vectors;
    })) << name;
  }
}

}  // namespace
}  // namespace kvasir
