#include "eval/neighbours/references.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "eval/neighbours/test_vectors.h"

namespace kvasir::eval {
namespace {

using testing::random_vectors;
using Tokens = std::vector<int32_t>;

double squared_distance(const TokenVectors& vectors, int32_t a, int32_t b) {
  double sum = 0;
  for (int32_t d = 0; d < vectors.width(); ++d) {
    const double x = static_cast<double>(vectors.at(a)[d]) - static_cast<double>(vectors.at(b)[d]);
    sum += x * x;
  }
  return sum;
}

// The k nearest of `candidates` below `token`, -1 where there are fewer.
Tokens by_brute_force(const TokenVectors& vectors, Tokens candidates, int32_t token, size_t k) {
  candidates.erase(std::lower_bound(candidates.begin(), candidates.end(), token), candidates.end());
  std::sort(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) {
    return squared_distance(vectors, token, a) < squared_distance(vectors, token, b);
  });
  candidates.resize(k, -1);
  return candidates;
}

TEST(References, AreTheFirstTokensAndEveryStridethOne) {
  const Parted parted = part_tokens({3, 4, 2}, 13);
  EXPECT_EQ(parted.references, (Tokens{0, 1, 2, 3, 7, 11}));
  EXPECT_EQ(parted.others, (Tokens{4, 5, 6, 8, 9, 10, 12}));
  EXPECT_EQ(parted.n_visible, (Tokens{4, 4, 4, 5, 5, 5, 6}));
  EXPECT_EQ(part_tokens({0, 5, 1}, 7).references, (Tokens{0, 5})) << "without sinks the first too";
}

TEST(References, NearestAreThoseOfBruteForce) {
  const TokenVectors vectors = random_vectors(300, 13, 8, 3);
  for (const ReferencePlan& plan : {ReferencePlan{4, 10, 4}, ReferencePlan{0, 3, 6}}) {
    const Parted parted = part_tokens(plan, vectors.n);
    SerialFor serial;
    const Chosen chosen =
        nearest_references(vectors, parted, plan.neighbours, best_kernels(), serial);
    for (size_t i = 0; i < parted.others.size(); ++i) {
      const auto found = chosen.of(i);
      EXPECT_EQ(Tokens(found.begin(), found.end()),
                by_brute_force(vectors, parted.references, parted.others[i], found.size()))
          << "token " << parted.others[i];
    }
  }
}

TEST(References, NearestOfAllEarlierTokensIsThatOfBruteForce) {
  const TokenVectors vectors = random_vectors(200, 16, 16, 4);
  SerialFor serial;
  const Tokens found = nearest_earlier(vectors, best_kernels(), serial);
  Tokens all;
  for (int32_t token = 0; token < vectors.n; ++token) {
    EXPECT_EQ(found[static_cast<size_t>(token)], by_brute_force(vectors, all, token, 1)[0]);
    all.push_back(token);
  }
  EXPECT_EQ(found[0], -1) << "nothing is before the first";
}

TEST(References, LocalIsTheLastBeforeTheToken) {
  EXPECT_EQ(local_references(part_tokens({3, 4, 2}, 13)).tokens, (Tokens{3, 3, 3, 7, 7, 7, 11}));
}

TEST(References, RandomAreDifferentOnesThatAreVisible) {
  const Parted parted = part_tokens({0, 4, 3}, 200);
  const Chosen chosen = random_references(parted, 3, 9);
  std::set<int32_t> seen;
  for (size_t i = 0; i < parted.others.size(); ++i) {
    std::set<int32_t> own;
    for (const int32_t token : chosen.of(i)) {
      if (token < 0) continue;
      EXPECT_TRUE(std::binary_search(parted.references.begin(), parted.references.end(), token));
      EXPECT_LT(token, parted.others[i]);
      EXPECT_TRUE(own.insert(token).second) << "twice";
      seen.insert(token);
    }
    EXPECT_EQ(own.size(), static_cast<size_t>(std::min(3, parted.n_visible[i])));
  }
  EXPECT_GT(seen.size(), parted.references.size() * 3 / 4);
  EXPECT_EQ(chosen.tokens, random_references(parted, 3, 9).tokens) << "the same for the same seed";
}

}  // namespace
}  // namespace kvasir::eval
