// logit_sums of every table against sums in long double.
#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kInfinity;
using test::kNan;

constexpr double kRelative = 1e-6;  // kernels.h

class LogitSums : public test::TableTest {
 protected:
  KvKernels::LogitSums sums(const std::vector<float>& logits) const {
    return GetParam()->logit_sums(logits.data(), static_cast<int32_t>(logits.size()));
  }

  void expect_exact(const std::vector<float>& logits, const std::string& what) const {
    const KvKernels::LogitSums got = sums(logits);
    ASSERT_TRUE(got.finite) << what;
    const auto largest = std::max_element(logits.begin(), logits.end());  // the first of equals
    float second = -kInfinity;
    long double z = 0, s = 0;
    for (auto it = logits.begin(); it != logits.end(); ++it) {
      if (it != largest) second = std::max(second, *it);
      if (*it == -kInfinity) continue;
      const long double x = static_cast<long double>(*it) - static_cast<long double>(*largest);
      z += std::exp(x);
      s += x * std::exp(x);
    }
    EXPECT_EQ(got.argmax, largest - logits.begin()) << what;
    EXPECT_EQ(got.max1, *largest) << what;
    EXPECT_EQ(got.max2, second) << what;
    EXPECT_NEAR(got.z, static_cast<double>(z), kRelative * static_cast<double>(z)) << what;
    const double dropped = 88 * std::exp(-87.0) * static_cast<double>(logits.size());
    EXPECT_NEAR(got.s, static_cast<double>(s), kRelative * -static_cast<double>(s) + dropped)
        << what;
  }
};

std::vector<float> normal_logits(size_t n, float spread, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(-2.0f, spread);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(rng);
  return logits;
}

constexpr std::array<size_t, 12> kSizes{1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 1000, 49152};

TEST_P(LogitSums, OfRandomLogits) {
  for (const size_t n : kSizes) {
    for (const float spread : {0.01f, 1.0f, 4.0f, 30.0f}) {
      expect_exact(normal_logits(n, spread, static_cast<uint32_t>(n)),
                   "n " + std::to_string(n) + ", spread " + std::to_string(spread));
    }
  }
  expect_exact(normal_logits(262144, 3.0f, 1), "n 262144");
}

TEST_P(LogitSums, OfUniformLogits) {
  for (const size_t n : kSizes) expect_exact(std::vector<float>(n, -7.25f), std::to_string(n));
}

TEST_P(LogitSums, OfOneHotLogits) {
  for (const size_t n : kSizes) {
    for (const size_t hot : {size_t{0}, n / 2, n - 1}) {
      std::vector<float> logits(n, -kInfinity);
      logits[hot] = 12.5f;
      expect_exact(logits, "n " + std::to_string(n) + ", at " + std::to_string(hot));
      EXPECT_EQ(sums(logits).z, 1.0);
      EXPECT_EQ(sums(logits).s, 0.0);
    }
  }
}

TEST_P(LogitSums, OfTwoPeaksTakesTheFirst) {
  for (const size_t n : kSizes) {
    if (n < 3) continue;
    std::vector<float> logits(n, -30.0f);
    logits[n / 2] = logits[n - 1] = 9.0f;
    expect_exact(logits, std::to_string(n));
    EXPECT_EQ(sums(logits).max2, 9.0f);
  }
}

// One maximum and a mass of equal entries far below it: any error of l - max is the error of the
// sums, not averaged away.
TEST_P(LogitSums, OfOnePeakOverAFlatRest) {
  for (const float rest : {-1.1f, -7.7f, -14.3f, -20.2f, -33.3f, -70.1f}) {
    for (const float peak : {0.0f, 0.3f, 17.9f}) {
      std::vector<float> logits(49152, rest);
      logits[777] = peak;
      expect_exact(logits, std::to_string(rest) + " under " + std::to_string(peak));
    }
  }
}

TEST_P(LogitSums, CountMinusInfinityAsProbabilityZero) {
  for (const size_t n : kSizes) {
    std::vector<float> logits = normal_logits(n, 2.0f, 3);
    for (size_t i = 1; i < n; i += 2) logits[i] = -kInfinity;
    expect_exact(logits, std::to_string(n));
  }
}

TEST_P(LogitSums, OfHugeDifferencesAreFinite) {
  std::vector<float> logits{3e38f, -3e38f, 1.0f, -1e30f, 2e38f};
  expect_exact(logits, "short");
  logits.resize(200, -3.4e38f);
  expect_exact(logits, "long");
}

TEST_P(LogitSums, WithoutAFiniteMaximumAreNotFinite) {
  for (const size_t n : kSizes) {
    EXPECT_FALSE(sums(std::vector<float>(n, -kInfinity)).finite) << n;
    for (const float bad : {kNan, -kNan, kInfinity}) {
      for (const size_t at : {size_t{0}, n / 2, n - 1}) {
        std::vector<float> logits = normal_logits(n, 2.0f, 4);
        logits[at] = bad;
        EXPECT_FALSE(sums(logits).finite) << bad << " at " << at << " of " << n;
        if (n == 1) continue;
        logits.assign(n, -kInfinity);
        logits[at] = bad;
        EXPECT_FALSE(sums(logits).finite) << bad << " at " << at << " of " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, LogitSums, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
