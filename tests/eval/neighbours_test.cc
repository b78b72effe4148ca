// What is read of a cache is what the model stored: in the first layer a token's keys without their
// rotation and its values say which token it is and nothing of where it stands.
#include "eval/neighbours/neighbours.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "device/device.h"
#include "device/inspect.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

class Neighbours : public testing::Test {
 protected:
  void SetUp() override {
    set_llama_log(false);
    auto path = find_model("smollm2-f16");
    ASSERT_TRUE(path) << path.error();
    auto model = load_model(path.value(), device::register_device());
    ASSERT_TRUE(model) << model.error();
    model_ = model.value();
    params_.n_threads = 1;
    // Twenty tokens, over and over.
    tokens_ = random_tokens(300, 20, 3);
    for (llama_token& token : tokens_) token += 1000;
  }

  KvSession read(const CacheOptions& options) const {
    SessionParams params = params_;
    params.n_ctx = 512;
    auto kv = KvSession::open(model_, options, params);
    EXPECT_TRUE(kv) << kv.error();
    EXPECT_TRUE(kv.value().session().fill(tokens_, 0));
    return std::move(kv.value());
  }

  std::shared_ptr<llama_model> model_;
  SessionParams params_;
  std::vector<llama_token> tokens_;
};

TEST_F(Neighbours, FirstLayerKnowsATokenWhereverItStands) {
  CacheOptions options;
  options.format = "residual";
  options.recent = 300;
  KvSession kv = read(options);
  int32_t n_layers = 0;
  auto shown = device::for_layer_tokens(kv.caches(), 0, [&](device::LayerTokens layer) {
    ++n_layers;
    if (layer.layer != 0) return Result<void>{};
    const auto width = static_cast<size_t>(layer.geometry.width_k() + layer.geometry.width_v());
    EXPECT_EQ(layer.x.size(), tokens_.size() * width);
    std::map<llama_token, size_t> first;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const size_t other = first.try_emplace(tokens_[i], i).first->second;
      double apart = 0, length = 0;
      for (size_t d = 0; d < width; ++d) {
        const double a = static_cast<double>(layer.x[i * width + d]);
        const double b = static_cast<double>(layer.x[other * width + d]);
        apart += (a - b) * (a - b);
        length += a * a;
      }
      EXPECT_LT(std::sqrt(apart / length), 2e-3) << "token " << i << " and " << other;
    }
    return Result<void>{};
  });
  EXPECT_TRUE(shown) << shown.error();
  EXPECT_EQ(n_layers, 30);
}

TEST_F(Neighbours, RotationMustBeKnown) {
  CacheOptions options;
  options.policy = "window";
  options.params.budget = 400;
  KvSession kv = read(options);
  auto shown = device::for_layer_tokens(kv.caches(), 0,
                                        [](const device::LayerTokens&) { return Result<void>{}; });
  EXPECT_NE(shown.error().find("--kv-format residual"), std::string::npos) << shown.error();
}

TEST_F(Neighbours, LayersThatAreDoneAreLeftOut) {
  std::set<int32_t> done, seen;
  for (int32_t layer = 0; layer < 28; ++layer) done.insert(layer);
  auto run = run_neighbours(model_, params_, tokens_, {}, done, [&](const LayerFigures& figures) {
    seen.insert(figures.layer);
    EXPECT_EQ(figures.n_tokens, 300);
    EXPECT_GT(figures.ratios[1].whole, figures.ratios[0].whole) << "twenty tokens recur";
    return Result<void>{};
  });
  EXPECT_TRUE(run) << run.error();
  EXPECT_EQ(seen, (std::set<int32_t>{28, 29}));
}

}  // namespace
}  // namespace kvasir::eval
