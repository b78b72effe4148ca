// The contract of a policy, for each registered one with each registered format: whatever its
// ranker thinks, the budget holds, what must stay stays, and neither chunks of a prompt nor threads
// change what is kept.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "cache/count_allocations.h"
#include "cache/test_model.h"
#include "cache/trace.h"
#include "format/row_codec.h"

namespace kvasir {
namespace {

using testing::ThreadFor;
using testing::TinyModel;
using testing::TinyRun;
using testing::TinyShape;

constexpr int32_t kPrompt = 130;
constexpr int32_t kDecoded = 40;  // more than a window of observed queries
constexpr int32_t kBudget = 96;
constexpr int32_t kRecent = 12;  // of budget and prompt a good part is demoted
constexpr int32_t kChunks[] = {1, 7, 64, 512};

// MHA, GQA of 3, 4, 7 and 8 query heads, MQA; each head_dim once.
const TinyShape kShapes[] = {{4, 4, 64},   {6, 2, 80},   {8, 2, 96},
                             {14, 2, 100}, {16, 2, 128}, {8, 1, 256}};
struct Setting {
  std::string policy, format;
};

// Every policy in f16, and every format under none and conf; or all the other pairs.
std::vector<Setting> settings(bool others) {
  std::vector<Setting> some;
  for (const auto policy : policy_names()) {
    for (const RowFormat& format : row_formats()) {
      const bool main = format.name == "f16" || policy == "none" || policy == "conf";
      if (main != others) some.push_back({std::string(policy), std::string(format.name)});
    }
    const bool main = policy == "none" || policy == "conf";
    if (main == others) continue;
    for (const char* together : {"residual", "latent"})
      some.push_back({std::string(policy), together});
  }
  return some;
}

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  std::string name = info.param.policy + "_" + info.param.format;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name + (info.param.policy.ends_with('+') ? "plus" : "");
}

CacheOptions options_of(const Setting& setting) {
  CacheOptions options;
  options.policy = setting.policy;
  if (options.evicts()) options.params.budget = kBudget;
  options.format = setting.format;
  if (options.demotes()) options.recent = kRecent;
  return options;
}

double confidence_at(int32_t step) { return step * 7 % 10 < 5 ? 0.3 : 0.95; }

/// What is live after each decode step, by layer.
using History = std::vector<std::vector<std::vector<int32_t>>>;

void read_prompt(TinyRun& run, int32_t chunk) {
  for (int32_t first = 0; first < kPrompt; first += chunk) {
    const int32_t n = std::min(chunk, kPrompt - first);
    run.read(n);
    if (first + n < kPrompt) run.end(-1);
  }
}

/// The rest of a run after its prompt was read: each step ends, then a token is decoded.
History decode(TinyRun& run) {
  History history;
  for (int32_t step = 0; step < kDecoded; ++step) {
    run.end(confidence_at(step));
    history.push_back(run.live());
    run.read(1);
  }
  return history;
}

class Contract : public ::testing::TestWithParam<Setting> {};

// After a step: what a layer holds is within its budget, ascends, and has what must stay.
void check_layer(const Policy& policy, const std::vector<int32_t>& live, int32_t budget,
                 int32_t n_seen) {
  if (!policy.evicts()) return;  // rows lie by cell, nothing is known of each
  const auto n = static_cast<int32_t>(live.size());
  ASSERT_LE(n, budget);
  for (size_t i = 1; i < live.size(); ++i) ASSERT_LT(live[i - 1], live[i]);
  for (int32_t s = 0; s < policy.sinks; ++s) ASSERT_EQ(live[static_cast<size_t>(s)], s);
  const auto recent = static_cast<int32_t>(policy.protect_share * budget);
  const int32_t protect = std::max(policy.protect, recent);
  ASSERT_GE(n, protect);
  for (int32_t p = 1; p <= protect; ++p) {
    ASSERT_EQ(live[static_cast<size_t>(n - p)], n_seen - p);
  }
}

TEST_P(Contract, BudgetHoldsAndWhatMustStayStays) {
  const TinyShape shape{6, 2, 16, 4};
  const TinyModel model(shape, kPrompt + kDecoded + 1);
  SerialFor serial;
  TinyRun run(model, options_of(GetParam()), serial);
  const Policy& policy = run.cache().policy();
  read_prompt(run, 64);
  for (int32_t step = 0; step < kDecoded; ++step) {
    const auto before = run.live();
    const int64_t rows_before = run.cache().evicted_rows(0);
    Confidence confidence;
    confidence.c = confidence_at(step);
    const StepState state{true, &confidence, step, run.n_seen()};
    const StepRecord record = run.end(confidence.c);
    const auto after = run.live();
    int64_t left = 0;
    for (int32_t l = 0; l < shape.n_layers; ++l) {
      const auto& held = before[static_cast<size_t>(l)];
      const auto& live = after[static_cast<size_t>(l)];
      const LayerState layer{l, shape.n_layers, static_cast<int32_t>(held.size())};
      check_layer(policy, live, policy.budget->tokens(state, layer), run.n_seen());
      ASSERT_TRUE(std::includes(held.begin(), held.end(), live.begin(), live.end()));
      left += static_cast<int64_t>(held.size() - live.size());
    }
    ASSERT_EQ(record.evicted, left) << "step " << step;
    ASSERT_EQ(run.cache().evicted_rows(0) - rows_before, left);
    if (HasFatalFailure()) return;
    run.read(1);
  }
}

TEST_P(Contract, ChunksAndThreadsDoNotMatter) {
  for (const TinyShape& shape : kShapes) {
    const TinyModel model(shape, kPrompt + kDecoded + 1);
    SerialFor serial;
    History expected;
    std::vector<float> out;
    for (const int32_t chunk : kChunks) {
      TinyRun run(model, options_of(GetParam()), serial);
      read_prompt(run, chunk);
      const History history = decode(run);
      if (expected.empty()) {
        expected = history;
        out = run.out();
      }
      ASSERT_EQ(history, expected) << "chunk " << chunk << ", heads " << shape.n_heads;
    }
    ThreadFor threads(3);
    TinyRun run(model, options_of(GetParam()), threads);
    read_prompt(run, kChunks[0]);
    ASSERT_EQ(decode(run), expected) << "three threads, heads " << shape.n_heads;
    ASSERT_EQ(run.out(), out);
  }
}

// Once sizes have settled, the end of a step allocates nothing.
TEST_P(Contract, SteadyStateAllocatesNothing) {
  const TinyModel model({4, 2, 16, 2}, kPrompt + 3 * kDecoded);
  SerialFor serial;
  TinyRun run(model, options_of(GetParam()), serial);
  read_prompt(run, 64);
  for (int32_t step = 0; step < 2 * kDecoded; ++step) {
    run.end(confidence_at(step));
    run.read(1);
  }
  if (!run.cache().evicts()) return;  // a cache that grows allocates
  int64_t allocated = 0;
  for (int32_t step = 0; step < 33; ++step) {
    const int64_t before = n_allocations;
    run.end(confidence_at(step));
    allocated += n_allocations - before;
    run.read(1);
  }
  // What blocks share lives until their last row leaves: a policy that scatters its survivors may
  // need room for a few more blocks later on. A table that grows is three vectors in each of two
  // layers.
  const RowFormat* format = find_format(GetParam().format);
  const bool shares =
      run.cache().evicts() &&
      (format == nullptr ||
       (format->k != nullptr && (format->k->block_rows() > 1 || format->v->block_rows() > 1)));
  EXPECT_LE(allocated, shares ? 6 : 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, Contract, ::testing::ValuesIn(settings(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Pairs, Contract, ::testing::ValuesIn(settings(true)), name_of);

// --kv-heads reaches every policy that looks at attention.
TEST(Heads, MaxIsNotMean) {
  const TinyModel model({8, 2, 32}, kPrompt + kDecoded + 1);
  SerialFor serial;
  for (const char* policy :
       {"conf", "conf+", "h2o", "scissorhands", "snapkv", "pyramidkv", "tova", "attention"}) {
    CacheOptions options = options_of({policy, "f16"});
    TinyRun mean(model, options, serial);
    options.params.heads = HeadReduction::kMax;
    TinyRun most(model, options, serial);
    read_prompt(mean, 64);
    read_prompt(most, 64);
    EXPECT_NE(decode(mean), decode(most)) << policy;
  }
}

TEST(PyramidKv, LayersReallyDiffer) {
  const TinyModel model({4, 2, 16, 4}, kPrompt + 2);
  SerialFor serial;
  CacheOptions options = options_of({"pyramidkv", "f16"});
  options.params.budget = 60;
  TinyRun run(model, options, serial);
  read_prompt(run, 64);
  run.end(0.5);
  const auto live = run.live();
  size_t sum = 0;
  for (size_t l = 0; l < live.size(); ++l) {
    sum += live[l].size();
    EXPECT_TRUE(l == 0 || live[l].size() < live[l - 1].size()) << l;
  }
  EXPECT_LE(sum, 4U * 60U);
  EXPECT_GT(sum, 4U * 58U);
}

// A budget that nothing reaches, and a window that holds all, change no bit of the answer.
TEST(Conf, BudgetBeyondTheContextIsNone) {
  const TinyModel model({6, 2, 64}, kPrompt + kDecoded + 1);
  SerialFor serial;
  TinyRun none(model, CacheOptions{}, serial);
  CacheOptions options;
  options.policy = "conf";
  options.params.high = options.params.low = 1000;
  options.format = "int8-channel";
  options.recent = 1000;
  TinyRun conf(model, options, serial);
  for (TinyRun* run : {&none, &conf}) read_prompt(*run, 64);
  for (int32_t step = 0; step < kDecoded; ++step) {
    none.end(confidence_at(step));
    conf.end(confidence_at(step));
    none.read(1);
    conf.read(1);
    ASSERT_EQ(none.out(), conf.out()) << "step " << step;
  }
}

// A control that replays the budgets of a run evicts as many tokens at each step and layer.
TEST(Schedule, ReplaysTheCountsOfARun) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) /
                            ("kvasir_schedule_" + std::to_string(getpid())))
                               .string();
  const TinyModel model({4, 2, 16, 3}, kPrompt + kDecoded + 1);
  SerialFor serial;
  CacheOptions options = options_of({"conf", "f16"});
  options.params.shrink = 5;
  TinyRun conf(model, options, serial);
  read_prompt(conf, 64);
  std::vector<std::vector<size_t>> counts;
  {
    auto trace = TraceWriter::open(path);
    ASSERT_TRUE(trace) << trace.error();
    StepRecord prompt;
    ASSERT_TRUE(trace.value().write(prompt));
    for (int32_t step = 0; step < kDecoded; ++step) {
      StepRecord record = conf.end(confidence_at(step));
      record.step = step + 1;
      ASSERT_TRUE(trace.value().write(record));
      auto& sizes = counts.emplace_back();
      for (const auto& layer : conf.live()) sizes.push_back(layer.size());
      conf.read(1);
    }
  }
  for (const char* policy : {"random", "recency", "attention"}) {
    CacheOptions replay;
    replay.policy = policy;
    replay.params.schedule_path = path;
    TinyRun run(model, replay, serial);
    read_prompt(run, 7);
    for (int32_t step = 0; step < kDecoded; ++step) {
      run.end(0.5);
      const auto live = run.live();
      for (size_t l = 0; l < live.size(); ++l) {
        ASSERT_EQ(live[l].size(), counts[static_cast<size_t>(step)][l])
            << policy << " step " << step << " layer " << l;
      }
      run.read(1);
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvasir
