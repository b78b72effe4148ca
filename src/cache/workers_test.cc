// Any number of workers does the same work: outputs, what stays, and bytes, bit for bit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/test_streams.h"

namespace kvasir {
namespace {

using testing::Shape;
using testing::Streams;
using testing::ThreadFor;

constexpr Shape kShape{"grouped", 6, 2, 64};
constexpr int32_t kLayers = 5;
constexpr int32_t kStreams = 8;

struct Case {
  const char* name;
  const char* policy;
  const char* format;
  int32_t budget;
};

CacheOptions options_of(const Case& c) {
  CacheOptions options;
  options.policy = c.policy;
  options.format = c.format;
  options.params.budget = c.budget;
  options.recent = 32;
  return options;
}

struct Outcome {
  std::vector<float> outs;
  std::vector<std::vector<int32_t>> positions;
  int64_t bytes = 0;
  int64_t evicted = 0;
};

// 45 steps of eight streams whose prompts are of 20 to 370 tokens; one is cleared midway.
Outcome run(const Case& c, ParallelFor& parallel) {
  std::vector<int32_t> lengths;
  for (int32_t s = 0; s < kStreams; ++s) lengths.push_back(20 + 50 * s);
  Streams streams(kShape, options_of(c), lengths, kLayers, parallel);
  Outcome outcome;
  for (int32_t step = 0; step < 45; ++step) {
    streams.decode();
    for (int32_t s = 0; s < kStreams; ++s) streams.end(s, true);
    if (step == 20) {
      streams.cache().clear_stream(3);
      streams.rewind(3, streams.n_seen(3));
      streams.read(3, 200);
      streams.end(3, false);
    }
  }
  outcome.outs = streams.outs();
  for (int32_t s = 0; s < kStreams; ++s) {
    for (int32_t l = 0; l < kLayers; ++l) {
      outcome.positions.push_back(streams.cache().live_positions(s, l));
    }
    outcome.evicted += streams.cache().evicted_rows(s);
    outcome.bytes += streams.cache().bytes(s).total();
  }
  return outcome;
}

class Workers : public ::testing::TestWithParam<Case> {};

TEST_P(Workers, AnyNumberDoesTheSame) {
  SerialFor one;
  ThreadFor nine(9);  // more than streams or layers
  const Outcome expected = run(GetParam(), one);
  const Outcome found = run(GetParam(), nine);
  EXPECT_EQ(found.outs, expected.outs);
  EXPECT_EQ(found.positions, expected.positions);
  EXPECT_EQ(found.bytes, expected.bytes);
  EXPECT_EQ(found.evicted, expected.evicted);
  EXPECT_EQ(expected.evicted > 0, GetParam().budget > 0);
}

INSTANTIATE_TEST_SUITE_P(Settings, Workers,
                         ::testing::Values(Case{"conf", "conf", "int8", 128},
                                           Case{"snapkv", "snapkv", "kivi2", 96},
                                           Case{"h2o", "h2o", "f16", 96},
                                           Case{"residual", "window", "residual", 192},
                                           Case{"none", "none", "k5v4", 0}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kvasir
