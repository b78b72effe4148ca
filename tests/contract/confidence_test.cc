// The confidence in the trace is that of the logits that llama.cpp hands out: with one output row
// and several, with a decode of one sequence and a prompt of another in one batch, with repacked
// weights and with Gemma's head.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "eval/session.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

// CONF-KV's formula, term by term, in double.
double plain_confidence(std::span<const float> logits) {
  double max = -INFINITY;
  for (const float l : logits) max = std::max(max, double{l});
  double z = 0;
  for (const float l : logits) z += std::exp(l - max);
  double entropy = 0;
  double p1 = 0;
  double p2 = 0;
  for (const float l : logits) {
    const double p = std::exp(l - max) / z;
    if (p > 0) entropy -= p * std::log(p);
    if (p > p1) {
      p2 = p1;
      p1 = p;
    } else {
      p2 = std::max(p2, p);
    }
  }
  const double normalised = entropy / std::log(static_cast<double>(logits.size()));
  return 0.4 * (1 - normalised) + 0.3 / (1 + std::exp(-(std::log(p1) - std::log(p2)))) + 0.3 * p1;
}

struct Expected {
  int32_t stream;
  int32_t pos;
  double c;  // NaN: the trace has null
};

class ConfidenceOf : public ::testing::TestWithParam<const char*> {};

TEST_P(ConfidenceOf, IsThatOfTheLogits) {
  set_llama_log(false);
  const std::filesystem::path trace =
      std::filesystem::temp_directory_path() / ("kvasir-confidence-" + std::to_string(getpid()));
  CacheOptions options;
  options.policy = "conf";
  options.params.high = 4000;
  options.params.low = 4000;
  options.trace_path = trace.string();
  ASSERT_TRUE(device::set_options(options));
  std::vector<Expected> expected;
  {
    auto path = find_model(GetParam());
    ASSERT_TRUE(path) << path.error();
    auto model = load_model(path.value(), device::register_device());
    ASSERT_TRUE(model) << model.error();
    SessionParams params;
    params.n_ctx = 1280;  // longer than Gemma's sliding window and a ubatch
    params.n_ubatch = 64;
    params.n_sequences = 2;
    auto opened = Session::open(model.value(), params);
    ASSERT_TRUE(opened) << opened.error();
    Session& session = opened.value();
    auto text = read_text("gpl");
    ASSERT_TRUE(text) << text.error();
    auto tokens = tokenize(session.vocab(), text.value(), 60);
    ASSERT_TRUE(tokens) << tokens.error();
    const std::span<const llama_token> t = tokens.value();
    const auto note = [&](int32_t stream, int32_t pos, int32_t row) {
      expected.push_back({stream, pos, plain_confidence(session.logits(row))});
    };

    ASSERT_TRUE(session.decode(t.first(20), 0, Outputs::kLast));  // a prompt
    note(0, 19, -1);
    ASSERT_TRUE(session.decode(t.subspan(20, 5), 20, Outputs::kAll));  // several output rows
    note(0, 24, 4);
    ASSERT_TRUE(session.decode(t.subspan(25, 1), 25, Outputs::kLast));  // one token
    note(0, 25, -1);
    // A decode of sequence 0 with a prompt of sequence 1: the first ubatch has one token of each.
    std::vector<BatchToken> mixed{{t[26], 26, 0, true}};
    for (int32_t i = 0; i < 12; ++i) {
      mixed.push_back({t[30 + static_cast<size_t>(i)], i, 1, i == 11});
    }
    ASSERT_TRUE(session.decode(mixed));
    note(0, 26, 0);
    expected.push_back({1, 0, NAN});
    note(1, 11, 12);
    ASSERT_TRUE(session.decode(t.subspan(50, 1), 12, Outputs::kLast, 1));
    note(1, 12, -1);
  }
  ASSERT_TRUE(device::set_options({}));  // closes the trace

  std::ifstream file(trace);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  std::filesystem::remove(trace);
  ASSERT_EQ(lines.size(), expected.size());
  for (const Expected& e : expected) {
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const nlohmann::json& l) {
      return l["stream"] == e.stream && l["pos"] == e.pos;
    });
    ASSERT_NE(line, lines.end()) << "stream " << e.stream << " pos " << e.pos;
    EXPECT_EQ((*line)["c"].is_null(), std::isnan(e.c)) << *line;
    if (!std::isnan(e.c)) {
      EXPECT_NEAR((*line)["c"].get<double>(), e.c, 2e-6) << *line;
    }
    EXPECT_GE((*line)["token"].get<int32_t>(), 0) << *line;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ConfidenceOf,
                         ::testing::Values("smollm2", "smollm2-q4_0-pure", "gemma3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kvasir::eval
