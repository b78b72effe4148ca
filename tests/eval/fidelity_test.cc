// Streaming fidelity on a real model: zero where nothing differs, large where the cache is broken.
#include "eval/fidelity/fidelity.h"

#include <gtest/gtest.h>

#include "device/device.h"
#include "device/kv_buffer.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kTokens = 160;
constexpr int32_t kPrefix = 130;

class Fidelity : public testing::Test {
 protected:
  void SetUp() override {
    set_llama_log(false);
    auto path = find_model("smollm2-f16");
    ASSERT_TRUE(path) << path.error();
    auto model = load_model(path.value(), device::register_device());
    ASSERT_TRUE(model) << model.error();
    model_ = std::move(model.value());
    auto text = read_text("gpl");
    ASSERT_TRUE(text) << text.error();
    auto tokens = tokenize(llama_model_get_vocab(model_.get()), text.value(), kTokens);
    ASSERT_TRUE(tokens) << tokens.error();
    plan_ = {std::move(tokens.value()), kPrefix};
    KvSession kv = open({});
    auto rows = collect_rows(kv.session(), plan_, {}, [] {});
    ASSERT_TRUE(rows) << rows.error();
    reference_ = std::make_unique<WholeRows>(std::move(rows.value()));
  }

  KvSession open(const CacheOptions& options) {
    SessionParams params;
    params.n_ctx = kTokens;
    params.n_threads = 1;
    auto kv = KvSession::open(model_, options, params);
    EXPECT_TRUE(kv) << kv.error();
    return std::move(kv.value());
  }

  double mean_kl(KvSession& kv, const OnStep& on_step) {
    auto run = run_fidelity(kv, plan_, *reference_, {}, on_step);
    EXPECT_TRUE(run) << run.error();
    double sum = 0;
    for (const FidelityStep& step : run.value().steps) sum += step.row.kl;
    return sum / plan_.n_rows();
  }

  std::shared_ptr<llama_model> model_;
  FidelityPlan plan_;
  std::unique_ptr<WholeRows> reference_;
};

// Turns the sign of every K row that the layers hold.
void flip_keys(const KvSession& kv) {
  for (device::KvBuffer* buffer :
       device::KvBuffer::made_between(kv.caches().first, kv.caches().last)) {
    Cache* cache = buffer->cache_if_made();
    if (cache == nullptr) continue;  // compute buffers
    for (const int32_t layer : cache->layer_ids()) {
      F16Tier& rows = cache->find(layer, 0)->rows();
      const LayerGeometry& geometry = rows.geometry();
      std::vector<uint16_t> row(static_cast<size_t>(geometry.n_kv_heads * geometry.head_dim_k));
      for (int32_t slot = 0; slot < kPrefix; ++slot) {
        rows.read_k(slot, row.data());
        for (uint16_t& x : row) x ^= 0x8000;
        rows.write_k(slot, row.data());
      }
    }
  }
}

TEST_F(Fidelity, IsExactlyZeroAgainstTheSameCache) {
  KvSession kv = open({});
  EXPECT_EQ(mean_kl(kv, [] {}), 0);
}

TEST_F(Fidelity, AnEvictingPolicyWithRoomForAllIsExactlyZero) {
  CacheOptions options;
  options.policy = "window";
  options.params.budget = kTokens;
  KvSession kv = open(options);
  EXPECT_EQ(mean_kl(kv, [] {}), 0);
  EXPECT_EQ(kv.held(kTokens - 1), std::vector<double>(kTokens - 1, 1.0));
}

TEST_F(Fidelity, SeesABrokenCache) {
  KvSession kv = open({});
  bool first = true;
  const double kl = mean_kl(kv, [&] {
    if (first) flip_keys(kv);
    first = false;
  });
  EXPECT_GT(kl, 1) << "keys with the wrong sign must not look like a cache";
}

TEST_F(Fidelity, SeesWhatAWindowForgets) {
  CacheOptions options;
  options.policy = "window";
  options.params.budget = 40;
  KvSession kv = open(options);
  EXPECT_GT(mean_kl(kv, [] {}), 0.01);
  const KvCounts counts = kv.counts();
  EXPECT_EQ(counts.live_tokens, 40);
  EXPECT_EQ(counts.evicted, kTokens - 1 - 40);
  const std::vector<double> held = kv.held(kTokens - 1);
  for (int32_t i = 0; i < kTokens - 1; ++i) {
    const bool lives = i < 4 || i >= kTokens - 1 - 36;  // 4 sink tokens and the newest
    EXPECT_EQ(held[static_cast<size_t>(i)], lives ? 1 : 0) << i;
  }
}

}  // namespace
}  // namespace kvasir::eval
