// The contract of a budget in a real run: SmolLM2 under conf, step by step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "eval/session.h"
#include "eval/statistics.h"
#include "eval/text.h"
#include "live_rows.h"

namespace kvasir::eval {
namespace {

constexpr const char* kModel = "smollm2-q4_0";
constexpr int32_t kRowElements = 3 * 64;  // K/V heads x head_dim of SmolLM2
constexpr int32_t kPrompt = 300;
constexpr int32_t kHigh = 128;
constexpr int32_t kLow = 192;

Result<Session> open(const CacheOptions& options) {
  set_llama_log(false);
  auto set = device::set_options(options);
  if (!set) return Error{set.error()};
  auto path = find_model(kModel);
  if (!path) return Error{path.error()};
  auto model = load_model(path.value(), device::register_device());
  if (!model) return Error{model.error()};
  SessionParams params;
  params.n_ctx = 1024;
  params.n_ubatch = 128;
  params.n_threads = 1;
  return Session::open(model.value(), params);
}

std::vector<llama_token> prompt_of(const Session& session) {
  auto text = read_text("bible");
  EXPECT_TRUE(text) << text.error();
  auto tokens = tokenize(session.vocab(), text.value(), kPrompt);
  EXPECT_TRUE(tokens) << tokens.error();
  return tokens.value();
}

llama_token best(const Session& session) { return summarize(session.logits()).top; }

CacheOptions conf_options() {
  CacheOptions options;
  options.policy = "conf";
  options.params.high = kHigh;
  options.params.low = kLow;
  return options;
}

class Trace {
 public:
  Trace()
      : path_(std::filesystem::temp_directory_path() /
              ("kvasir-trace-" + std::to_string(getpid()))) {}
  ~Trace() { std::filesystem::remove(path_); }

  std::string path() const { return path_.string(); }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

 private:
  std::filesystem::path path_;
};

// Sinks and the newest tokens are in every layer, and no layer holds more than `budget`.
void check_layers(const std::vector<std::vector<int32_t>>& layers, int32_t n_tokens, int32_t budget,
                  const Policy& policy) {
  for (const auto& live : layers) {
    ASSERT_LE(static_cast<int32_t>(live.size()), budget);
    for (int32_t i = 0; i < policy.sinks; ++i) ASSERT_EQ(live[static_cast<size_t>(i)], i);
    for (int32_t i = 0; i < policy.protect; ++i) {
      ASSERT_EQ(live[live.size() - 1 - static_cast<size_t>(i)], n_tokens - 1 - i);
    }
  }
}

TEST(Budget, HoldsAtEveryStep) {
  constexpr int32_t kSteps = 120;
  Trace trace;
  CacheOptions options = conf_options();
  options.trace_path = trace.path();
  const auto policy = make_policy(options.policy, options.params);
  ASSERT_TRUE(policy) << policy.error();
  options.params.alpha = 1;  // by attention alone, which new tokens have none of: only P keeps them
  {
    auto session = open(options);
    ASSERT_TRUE(session) << session.error();
    Session& s = session.value();
    const auto prompt = prompt_of(s);
    ASSERT_TRUE(s.decode(prompt, 0, Outputs::kLast));
    for (int32_t step = 0; step < kSteps; ++step) {
      const llama_token token = best(s);
      const int32_t n_tokens = kPrompt + step + 1;
      ASSERT_TRUE(s.decode(std::span(&token, 1), n_tokens - 1, Outputs::kLast));
      if (step % 10 != 9) continue;  // a saved state is 10 MB
      auto live = live_positions(s, n_tokens, kRowElements);
      ASSERT_TRUE(live) << live.error();
      check_layers(live.value(), n_tokens, kLow, policy.value());
    }
  }

  int32_t n_high = 0;
  int32_t n_low = 0;
  int32_t newest = -1;
  for (const auto& line : trace.lines()) {
    const int32_t pos = line.at("pos");
    ASSERT_GT(pos, newest) << "one line for each step, in order";
    newest = pos;
    if (pos < kPrompt - 1) {  // the last chunk of the prompt has logits, and so a confidence
      EXPECT_TRUE(line.at("budget").is_null()) << line;
      continue;
    }
    ASSERT_TRUE(line.at("c").is_number()) << line;
    const double c = line.at("c");
    const int32_t budget = line.at("budget");
    EXPECT_GE(c, 0.15);
    EXPECT_LE(c, 1);
    EXPECT_EQ(budget, c >= options.params.tau ? kHigh : kLow) << line;
    EXPECT_LE(line.at("live").at("max").get<int32_t>(), budget) << line;
    ++(budget == kHigh ? n_high : n_low);
  }
  EXPECT_EQ(newest, kPrompt + kSteps - 1);
  EXPECT_GT(n_high, 0) << "no confident step: the test shows nothing of the high budget";
  EXPECT_GT(n_low, 0) << "no unsure step: the test shows nothing of the low budget";
}

// Greedy tokens, and the logits of the last step.
std::pair<std::vector<llama_token>, std::vector<float>> generate(const CacheOptions& options,
                                                                 int32_t count) {
  auto session = open(options);
  EXPECT_TRUE(session) << session.error();
  Session& s = session.value();
  std::vector<llama_token> tokens = prompt_of(s);
  EXPECT_TRUE(s.decode(tokens, 0, Outputs::kLast));
  for (int32_t step = 0; step < count; ++step) {
    const llama_token token = best(s);
    const auto pos = static_cast<llama_pos>(tokens.size());
    EXPECT_TRUE(s.decode(std::span(&token, 1), pos, Outputs::kLast));
    tokens.push_back(token);
  }
  const auto row = s.logits();
  return {tokens, {row.begin(), row.end()}};
}

TEST(Budget, BeyondTheContextIsNone) {
  CacheOptions large = conf_options();
  large.params.high = 1024;
  large.params.low = 1024;
  const auto all = generate(CacheOptions{}, 40);
  const auto budgeted = generate(large, 40);
  EXPECT_EQ(all.first, budgeted.first);
  EXPECT_EQ(all.second, budgeted.second);

  // The comparison can fail: a budget below the context changes the logits.
  const auto small = generate(conf_options(), 40);
  EXPECT_NE(all.second, small.second);
}

}  // namespace
}  // namespace kvasir::eval
