#include "eval/fidelity/reference_rows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace kvasir::eval {
namespace {

constexpr int32_t kVocab = 50;

std::vector<float> some_logits(uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> logits(kVocab);
  for (float& x : logits) x = static_cast<float>(generator() % 1000) / 100.0F;
  return logits;
}

WholeRows some_rows(int32_t n) {
  WholeRows rows(kVocab);
  for (int32_t i = 0; i < n; ++i) rows.add(some_logits(static_cast<uint64_t>(i)), (7 * i) % kVocab);
  return rows;
}

// KL and negative log-likelihood straight from their definitions.
RowComparison by_definition(std::span<const float> a, std::span<const float> b, int32_t next) {
  const auto softmax = [](std::span<const float> x) {
    std::vector<double> p;
    double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<double>(v));
    for (const float v : x) p.push_back(std::exp(static_cast<double>(v)) / sum);
    return p;
  };
  const auto p = softmax(a), q = softmax(b);
  RowComparison row;
  for (size_t i = 0; i < p.size(); ++i) row.kl += p[i] * std::log(p[i] / q[i]);
  row.nll_reference = -std::log(p[static_cast<size_t>(next)]);
  row.nll = -std::log(q[static_cast<size_t>(next)]);
  row.same_top = std::max_element(p.begin(), p.end()) - p.begin() ==
                 std::max_element(q.begin(), q.end()) - q.begin();
  return row;
}

TEST(WholeRows, CompareByDefinition) {
  const WholeRows rows = some_rows(5);
  for (int32_t i = 0; i < 5; ++i) {
    const auto other = some_logits(100 + static_cast<uint64_t>(i));
    const RowComparison expected = by_definition(rows.row(i), other, rows.next_token(i));
    const RowComparison found = rows.compare(i, other);
    EXPECT_NEAR(found.kl, expected.kl, 1e-5 * expected.kl);
    EXPECT_NEAR(found.nll, expected.nll, 1e-5);
    EXPECT_NEAR(found.nll_reference, expected.nll_reference, 1e-5);
    EXPECT_EQ(found.same_top, expected.same_top);
  }
}

TEST(WholeRows, ARowIsExactlyZeroFromItself) {
  const WholeRows rows = some_rows(3);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows.compare(i, some_logits(static_cast<uint64_t>(i))).kl, 0);
  }
}

TEST(TopRows, AllOfThemGiveTheWholeDivergence) {
  const WholeRows rows = some_rows(4);
  const TopRows all = top_rows(rows, kVocab);
  const TopRows few = top_rows(rows, 5);
  for (int32_t i = 0; i < 4; ++i) {
    const auto other = some_logits(200 + static_cast<uint64_t>(i));
    const RowComparison whole = rows.compare(i, other);
    EXPECT_NEAR(all.compare(i, other).kl, whole.kl, 1e-4 * whole.kl);
    EXPECT_LE(few.compare(i, other).kl, whole.kl);
    EXPECT_GT(few.compare(i, other).kl, 0);
    EXPECT_NEAR(few.compare(i, other).nll_reference, whole.nll_reference, 1e-5);
    EXPECT_EQ(few.compare(i, other).same_top, whole.same_top);
    EXPECT_LT(few.compare(i, some_logits(static_cast<uint64_t>(i))).kl, 1e-6);
  }
}

class ReferenceFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "kvasir_reference_" + std::to_string(getpid());
    ASSERT_TRUE(write_top_rows(path_, "model a, text b", top_rows(some_rows(4), 5)));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string bytes() const {
    std::stringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }
  void rewrite(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  std::string path_;
};

TEST_F(ReferenceFile, ReadsBackWhatWasWritten) {
  auto read = read_top_rows(path_, "model a, text b");
  ASSERT_TRUE(read) << read.error();
  const TopRows expected = top_rows(some_rows(4), 5);
  ASSERT_EQ(read.value().rows.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read.value().rows[i].ids, expected.rows[i].ids);
    EXPECT_EQ(read.value().rows[i].log_probability, expected.rows[i].log_probability);
    EXPECT_EQ(read.value().rows[i].log_rest, expected.rows[i].log_rest);
    EXPECT_EQ(read.value().rows[i].next, expected.rows[i].next);
  }
}

TEST_F(ReferenceFile, RefusesAnotherRunAndDamage) {
  EXPECT_NE(read_top_rows(path_, "model c").error().find("another run: 'model a, text b'"),
            std::string::npos);
  const std::string whole = bytes();
  rewrite(whole + "x");
  EXPECT_NE(read_top_rows(path_, "model a, text b").error().find("damaged: it has"),
            std::string::npos);
  for (size_t n = 0; n < whole.size(); ++n) {
    rewrite(whole.substr(0, n));
    EXPECT_FALSE(read_top_rows(path_, "model a, text b")) << n;
  }
  std::mt19937_64 generator(1);
  for (int i = 0; i < 500; ++i) {  // whatever comes, nothing is read out of bounds
    std::string garbled = whole;
    for (int k = 0; k < 3; ++k)
      garbled[generator() % whole.size()] = static_cast<char>(generator());
    rewrite(garbled);
    auto read = read_top_rows(path_, "model a, text b");
    if (!read) continue;
    EXPECT_GT(read.value().compare(0, some_logits(9)).kl, -1e-9);
  }
}

}  // namespace
}  // namespace kvasir::eval
