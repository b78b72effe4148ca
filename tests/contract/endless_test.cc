// Generation without end: far past the trained length, with memory that does not grow.
//
// On one of the suite's tiny models (trained length 256), so that 20,000 tokens take seconds.
#include <gtest/gtest.h>

#include <string>

#include "device/device.h"
#include "eval/session.h"
#include "eval/statistics.h"
#include "eval/text.h"
#include "kvasir/kvasir.h"
#include "process_memory.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kTokens = 20'000;
constexpr int32_t kBudget = 96;

struct Case {
  const char* name;
  const char* policy;
  PositionMode positions;
};

class Endless : public testing::TestWithParam<Case> {};

TEST_P(Endless, MemoryIsFlat) {
  set_llama_log(false);
  CacheOptions options;
  options.policy = GetParam().policy;
  options.positions = GetParam().positions;
  options.params.budget = kBudget;
  auto set = device::set_options(options);
  ASSERT_TRUE(set) << set.error();
  auto model =
      load_model(std::string(KVASIR_ARCH_MODELS) + "/llama-dense.gguf", device::register_device());
  ASSERT_TRUE(model) << model.error();
  SessionParams params;
  params.n_ctx = 131'072;  // what `kvasir` gives an evicting policy
  params.n_ubatch = 64;
  params.n_threads = 1;
  auto session = Session::open(model.value(), params);
  ASSERT_TRUE(session) << session.error();

  const auto tokens = random_tokens(kTokens, session.value().n_vocab(), 11);
  kvasir_stats early{};
  kvasir_stats now{};
  int64_t early_process = 0;
  for (int32_t i = 0; i < kTokens; ++i) {
    const auto token = std::span(tokens).subspan(static_cast<size_t>(i), 1);
    auto done = session.value().decode(token, i, Outputs::kLast);
    ASSERT_TRUE(done) << done.error();
    if (i % 1000 != 999) continue;
    ASSERT_EQ(kvasir_get_stats(&now), 1);
    ASSERT_TRUE(summarize(session.value().logits()).finite) << "at token " << i;
    ASSERT_LE(now.live_tokens, kBudget);
    if (i == 999) {
      early = now;
      early_process = anonymous_bytes();
    }
    ASSERT_EQ(now.rows_bytes, early.rows_bytes) << "at token " << i;
    // A few bits stay for each 64 cells that llama.cpp counts on.
    ASSERT_LE(now.live_bytes, early.live_bytes + early.live_bytes / 100) << "at token " << i;
  }
  const int64_t grown = anonymous_bytes() - early_process;
  printf(
      "%s: %.0f live tokens, %lld bytes after 1,000 tokens, %lld at the end; process grew by %lld "
      "bytes in %d tokens\n",
      GetParam().name, now.live_tokens, static_cast<long long>(early.live_bytes),
      static_cast<long long>(now.live_bytes), static_cast<long long>(grown), kTokens - 1000);
  EXPECT_LT(grown, 8 << 20) << "all rows would take 39 MB";
}

INSTANTIATE_TEST_SUITE_P(Policies, Endless,
                         testing::Values(Case{"window", "window", PositionMode::kOriginal},
                                         Case{"window_by_slot", "window", PositionMode::kCache},
                                         Case{"conf", "conf", PositionMode::kOriginal},
                                         Case{"conf_by_slot", "conf", PositionMode::kCache}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kvasir::eval
