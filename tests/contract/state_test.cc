// What a front end does to a cache after rows were evicted or demoted: save, restore, copy, edit.
//
// After each, a real model must answer as if it had never been done.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "device/device.h"
#include "eval/session.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kPrompt = 300;
constexpr int32_t kDecoded = 40;

struct Setting {
  const char* name;
  const char* flags;
  double max_difference;  // of logits; 0: the same bits
};

std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << setting.name; }

// Demoted rows travel as f16 and are demoted anew: the difference is that of rounding.
const Setting kSettings[] = {
    {"window", "--kv-policy window --kv-budget 128", 0},
    {"conf", "--kv-policy conf --kv-high 128 --kv-low 192", 0},
    {"streaming_positions", "--kv-policy window --kv-budget 128 --kv-positions cache", 0},
    {"int8", "--kv-format int8 --kv-recent 64", 0.15},
    {"conf_int8", "--kv-policy conf --kv-high 128 --kv-low 192 --kv-format int8 --kv-recent 64",
     0.15},
    {"conf_int8_channel",
     "--kv-policy conf --kv-high 128 --kv-low 192 --kv-format int8-channel --kv-recent 16", 0.15},
};

class State : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    set_llama_log(false);
    auto words = split_flags(GetParam().flags);
    ASSERT_TRUE(words) << words.error();
    CacheOptions options;
    ASSERT_TRUE(take_flags(words.value(), options));
    auto set = device::set_options(options);
    ASSERT_TRUE(set) << set.error();
    auto path = find_model("smollm2-f16");
    ASSERT_TRUE(path) << path.error();
    auto model = load_model(path.value(), device::register_device());
    ASSERT_TRUE(model) << model.error();
    model_ = model.value();
    SessionParams params;
    params.n_ctx = 1024;
    params.n_sequences = 3;
    auto opened = Session::open(model.value(), params);
    ASSERT_TRUE(opened) << opened.error();
    session_ = std::make_unique<Session>(std::move(opened.value()));
    auto text = read_text("bible");
    ASSERT_TRUE(text) << text.error();
    auto tokens = tokenize(session_->vocab(), text.value(), 2 * (kPrompt + kDecoded));
    ASSERT_TRUE(tokens) << tokens.error();
    tokens_ = tokens.value();
    ASSERT_TRUE(decode(0, 0, kPrompt));
    for (int32_t i = 0; i < kDecoded; ++i) ASSERT_TRUE(decode(0, kPrompt + i, 1));
  }

  llama_context* context() { return session_->context(); }

  // The text's tokens [first, first + n), shifted by `other` in the text, at positions from first.
  Result<void> decode(llama_seq_id sequence, int32_t first, int32_t n, int32_t other = 0) {
    return session_->decode(
        std::span(tokens_).subspan(static_cast<size_t>(first + other), static_cast<size_t>(n)),
        first, Outputs::kLast, sequence);
  }
  std::vector<float> logits_after(llama_seq_id sequence, int32_t first, int32_t other = 0) {
    auto done = decode(sequence, first, 1, other);
    EXPECT_TRUE(done) << done.error();
    const auto logits = session_->logits();
    return {logits.begin(), logits.end()};
  }
  std::vector<uint8_t> save(llama_seq_id sequence, uint32_t flags = 0) {
    std::vector<uint8_t> bytes(llama_state_seq_get_size_ext(context(), sequence, flags));
    EXPECT_EQ(llama_state_seq_get_data_ext(context(), bytes.data(), bytes.size(), sequence, flags),
              bytes.size());
    return bytes;
  }
  void restore(const std::vector<uint8_t>& bytes, llama_seq_id sequence, uint32_t flags = 0) {
    EXPECT_EQ(llama_state_seq_set_data_ext(context(), bytes.data(), bytes.size(), sequence, flags),
              bytes.size());
  }

  std::shared_ptr<llama_model> model_;
  std::unique_ptr<Session> session_;
  std::vector<llama_token> tokens_;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
  }
  return worst;
}

constexpr int32_t kNext = kPrompt + kDecoded;

TEST_P(State, IsTheSameAfterSaveAndRestore) {
  for (const uint32_t flags : {0U, uint32_t{LLAMA_STATE_SEQ_FLAGS_ON_DEVICE}}) {
    SCOPED_TRACE(flags);
    const auto saved = save(0, flags);
    const auto expected = logits_after(0, kNext);
    restore(saved, 0, flags);
    const auto seen = logits_after(0, kNext);
    EXPECT_LE(largest_difference(seen, expected), GetParam().max_difference);
    restore(saved, 0, flags);  // the starting point of the next round
  }
}

TEST_P(State, MovesToAnotherSequence) {
  const auto saved = save(0);
  const auto expected = logits_after(0, kNext);
  ASSERT_TRUE(decode(2, 0, 100, 50));  // what is there goes
  restore(saved, 2);
  EXPECT_LE(largest_difference(logits_after(2, kNext), expected), GetParam().max_difference);
  // And lives on: the following steps evict and demote there as well.
  for (int32_t i = 1; i < 100; ++i) ASSERT_TRUE(decode(2, kNext + i, 1)) << i;
}

TEST_P(State, IsCopiedToAnotherSequence) {
  llama_memory_seq_cp(session_->memory(), 0, 1, -1, -1);
  const auto expected = logits_after(0, kNext);
  EXPECT_EQ(largest_difference(logits_after(1, kNext), expected), 0);
}

// The last message is edited: its tokens leave, others come in their place.
TEST_P(State, GoesOnAfterTheLastTokensWereReplaced) {
  const auto saved = save(0);
  const auto expected = logits_after(0, kNext, 100);
  restore(saved, 0);
  ASSERT_TRUE(decode(0, kNext, 1));  // a token that is taken back before anything was evicted
  ASSERT_TRUE(session_->truncate(kNext));
  const auto seen = logits_after(0, kNext, 100);
  // An evicting policy may have dropped a token for the one that was taken back.
  const bool evicts = std::string(GetParam().flags).find("--kv-policy") != std::string::npos;
  EXPECT_LE(largest_difference(seen, expected), evicts ? 5 : GetParam().max_difference);
  EXPECT_GT(largest_difference(seen, logits_after(0, kNext + 1, 100)), 1);
}

// Eight sequences in one batch, each with its own text, confidence and budget, answer as alone.
TEST_P(State, EightSequencesAnswerAsAlone) {
  constexpr int32_t kSequences = 8;
  constexpr int32_t kRead = 200;
  constexpr int32_t kSteps = 24;
  SessionParams params;
  params.n_ctx = 512;
  params.n_sequences = kSequences;
  auto together = Session::open(model_, params);
  ASSERT_TRUE(together) << together.error();
  const auto token = [&](int32_t sequence, int32_t i) {
    return tokens_[static_cast<size_t>(sequence * 20 + i)];
  };
  const auto read = [&](Session& session, int32_t text, llama_seq_id sequence) {
    std::vector<llama_token> prompt;
    for (int32_t i = 0; i < kRead; ++i) prompt.push_back(token(text, i));
    ASSERT_TRUE(session.decode(prompt, 0, Outputs::kLast, sequence));
  };
  for (int32_t s = 0; s < kSequences; ++s) read(together.value(), s, s);
  for (int32_t step = 0; step < kSteps; ++step) {
    std::vector<BatchToken> batch;
    for (int32_t s = 0; s < kSequences; ++s) {
      batch.push_back({token(s, kRead + step), kRead + step, s, true});
    }
    ASSERT_TRUE(together.value().decode(batch));
  }
  for (int32_t s = 0; s < kSequences; s += 3) {
    SessionParams one = params;
    one.n_sequences = 1;
    auto alone = Session::open(model_, one);
    ASSERT_TRUE(alone) << alone.error();
    read(alone.value(), s, 0);
    for (int32_t step = 0; step < kSteps; ++step) {
      const llama_token next = token(s, kRead + step);
      ASSERT_TRUE(alone.value().decode(std::span(&next, 1), kRead + step, Outputs::kLast));
    }
    const auto a = together.value().logits(s);
    const auto b = alone.value().logits();
    // Matrix products of eight rows round differently from those of one.
    EXPECT_LE(largest_difference({a.begin(), a.end()}, {b.begin(), b.end()}), 0.15) << s;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, State, ::testing::ValuesIn(kSettings),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kvasir::eval
