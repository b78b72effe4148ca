// Bytes reported are bytes allocated, and cells without rows cost nothing.
#include <gtest/gtest.h>

#include "device/device.h"
#include "eval/session.h"
#include "eval/text.h"
#include "kvasir/kvasir.h"
#include "process_memory.h"

namespace kvasir::eval {
namespace {

Session open(const char* name, int32_t n_ctx) {
  set_llama_log(false);
  EXPECT_TRUE(device::set_options(CacheOptions{}));
  auto path = find_model(name);
  EXPECT_TRUE(path) << path.error();
  auto model = load_model(path.value(), device::register_device());
  EXPECT_TRUE(model) << model.error();
  SessionParams params;
  params.n_ctx = n_ctx;
  params.n_ubatch = 128;
  auto session = Session::open(model.value(), params);
  EXPECT_TRUE(session) << session.error();
  return std::move(session.value());
}

TEST(Memory, ReportedBytesAreTheProcesss) {
  Session session = open("smollm2-q4_0", 7168);
  const auto tokens = random_tokens(7000, session.n_vocab(), 3);
  const auto part = std::span(tokens);
  kvasir_stats early{};
  kvasir_stats late{};
  ASSERT_TRUE(session.fill(part.first(1000), 0));
  ASSERT_EQ(kvasir_get_stats(&early), 1);
  const int64_t early_process = anonymous_bytes();
  ASSERT_TRUE(session.fill(part.subspan(1000), 1000));
  ASSERT_EQ(kvasir_get_stats(&late), 1);
  const int64_t late_process = anonymous_bytes();

  const auto reported = static_cast<double>(late.live_bytes - early.live_bytes);
  const auto grown = static_cast<double>(late_process - early_process);
  printf("6,000 tokens: reported %.2f MB, process grew by %.2f MB\n", reported / 1e6, grown / 1e6);
  // 6,000 tokens of 30 layers, K and V of 3 heads x 64 f16.
  EXPECT_GE(reported, 6000.0 * 30 * 2 * 3 * 64 * 2);
  EXPECT_NEAR(reported / grown, 1, 0.05);
}

TEST(Memory, ClearingGivesItBack) {
  Session session = open("smollm2-q4_0", 1024);
  const auto tokens = random_tokens(1000, session.n_vocab(), 3);
  ASSERT_TRUE(session.fill(tokens, 0));
  kvasir_stats full{};
  ASSERT_EQ(kvasir_get_stats(&full), 1);
  llama_memory_clear(session.memory(), true);
  ASSERT_TRUE(session.fill(std::span(tokens).first(10), 0));
  kvasir_stats cleared{};
  ASSERT_EQ(kvasir_get_stats(&cleared), 1);
  EXPECT_LT(cleared.rows_bytes, full.rows_bytes / 8);
}

TEST(Memory, AMillionCellsCostNothingUntilTheyAreUsed) {
  constexpr double kMiB = 1 << 20;
  { Session warm_up = open("smollm2-q4_0", 1024); }
  const int64_t before = anonymous_bytes();
  Session session = open("smollm2-q4_0", 1'000'000);
  const auto tokens = random_tokens(64, session.n_vocab(), 3);
  ASSERT_TRUE(session.fill(tokens, 0));
  const double grown = static_cast<double>(anonymous_bytes() - before) / kMiB;
  printf("1,000,000 cells: process grew by %.1f MiB; their rows would take 21,973\n", grown);
  // llama.cpp's own record of a cell takes about 50 bytes, and loading repacks the weights: 90 MB.
  EXPECT_LT(grown, 256);
}

}  // namespace
}  // namespace kvasir::eval
