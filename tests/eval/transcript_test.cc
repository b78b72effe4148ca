// An episode in a model's context: what the cache holds of it, by character.
#include <gtest/gtest.h>

#include "device/device.h"
#include "eval/agent_play/cached_transcript.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

using agent::Message;
using agent::Role;

class Transcript : public testing::Test {
 protected:
  void SetUp() override {
    set_llama_log(false);
    auto path = find_model("smollm2-q4_0");
    ASSERT_TRUE(path) << path.error();
    auto model = load_model(path.value(), device::register_device());
    ASSERT_TRUE(model) << model.error();
    model_ = std::move(model.value());
    auto frame = chat_frame(model_.get());
    ASSERT_TRUE(frame) << frame.error();
    frame_ = frame.value();
  }

  KvSession open(int32_t budget) const {
    CacheOptions options;
    if (budget > 0) {
      options.policy = "window";
      options.params.budget = budget;
    }
    SessionParams params;
    params.n_ctx = 1024;
    params.n_threads = 1;
    auto kv = KvSession::open(model_, options, params);
    EXPECT_TRUE(kv) << kv.error();
    return std::move(kv.value());
  }

  static std::string page(int n_words) {
    std::string text = "The code is 4711.";
    for (int i = 0; i < n_words; ++i) text += " word" + std::to_string(i);
    return text;
  }

  std::shared_ptr<llama_model> model_;
  ChatFrame frame_;
};

TEST_F(Transcript, EverythingIsHeldWithoutEviction) {
  KvSession kv = open(0);
  CachedTranscript transcript(kv, frame_, 1024);
  ASSERT_TRUE(transcript.append({Role::kSystem, "Rules."}));
  ASSERT_TRUE(transcript.append({Role::kUser, page(60)}));
  ASSERT_TRUE(transcript.append({Role::kAssistant, "click[1]"}));
  ASSERT_TRUE(transcript.append({Role::kUser, page(10)}));
  EXPECT_EQ(transcript.held(0, 0, 17), 1);
  EXPECT_EQ(transcript.held(1, 5, 12), 1);
}

TEST_F(Transcript, AWindowHoldsTheNewestCharacters) {
  KvSession kv = open(120);
  CachedTranscript transcript(kv, frame_, 1024);
  ASSERT_TRUE(transcript.append({Role::kSystem, "Rules."}));
  const std::string first = page(150), second = page(20);
  ASSERT_TRUE(transcript.append({Role::kUser, first}));
  EXPECT_EQ(transcript.held(0, 12, 16), 0) << "the code stands before the window";
  EXPECT_EQ(transcript.held(0, first.size() - 7, first.size()), 1);
  ASSERT_TRUE(transcript.append({Role::kAssistant, "click[1]"}));
  ASSERT_TRUE(transcript.append({Role::kUser, second}));
  EXPECT_EQ(transcript.held(1, 12, 16), 1) << "and is shown again";
  const double some = transcript.held(0, 0, first.size());
  EXPECT_GT(some, 0);
  EXPECT_LT(some, 0.5);
}

TEST_F(Transcript, AReplyOfTheModelIsReadOnce) {
  KvSession kv = open(0);
  CachedTranscript transcript(kv, frame_, 1024);
  ASSERT_TRUE(transcript.append({Role::kSystem, "Answer with one word."}));
  ASSERT_TRUE(transcript.append({Role::kUser, "What is the capital of France?"}));
  auto reply = transcript.generate(16);
  ASSERT_TRUE(reply) << reply.error();
  const int32_t before = transcript.n_tokens();
  EXPECT_GT(transcript.n_generated(), 0);
  ASSERT_TRUE(transcript.append({Role::kAssistant, reply.value()}));
  EXPECT_EQ(transcript.n_tokens(), before);
}

TEST_F(Transcript, AnEpisodeThatIsTooLongIsRefused) {
  KvSession kv = open(0);
  CachedTranscript transcript(kv, frame_, 200);
  auto refused = transcript.append({Role::kUser, page(150)});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("at most 200 are allowed"), std::string::npos) << refused.error();
}

}  // namespace
}  // namespace kvasir::eval
