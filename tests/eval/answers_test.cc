// Questions about compressed contexts, on a real model.
#include <gtest/gtest.h>

#include "device/device.h"
#include "eval/answers/answerer.h"
#include "eval/answers/chat_frame.h"
#include "eval/answers/tokens.h"
#include "eval/premise/premise.h"
#include "eval/tasks/needle.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

class Answers : public testing::Test {
 protected:
  void SetUp() override {
    set_llama_log(false);
    model_ = load("smollm2");
  }

  static std::shared_ptr<llama_model> load(const std::string& name) {
    auto path = find_model(name);
    EXPECT_TRUE(path) << path.error();
    auto model = load_model(path.value(), device::register_device());
    EXPECT_TRUE(model) << model.error();
    return model.value();
  }

  Answerer answerer(AnswerOptions options = {}) const {
    options.session.n_threads = 1;
    auto made = Answerer::make(model_, options);
    EXPECT_TRUE(made) << made.error();
    return std::move(made.value());
  }

  Sample needle(int32_t length, double depth) const {
    auto sample = make_needle_sample({length, depth, 1, ValueKind::kNumber}, Material{},
                                     answerer().counter());
    EXPECT_TRUE(sample) << sample.error();
    return sample.value();
  }

  static Setting window(int32_t budget) {
    Setting setting{"window", {}};
    setting.options.policy = "window";
    setting.options.params.budget = budget;
    return setting;
  }

  static bool is_right(const Answer& answer, const Sample& sample) {
    return answer.prediction.find(sample.questions[0].references[0]) != std::string::npos;
  }

  std::shared_ptr<llama_model> model_;
};

TEST_F(Answers, FramesAreThoseOfTheTemplates) {
  auto frame = chat_frame(model_.get());
  ASSERT_TRUE(frame) << frame.error();
  EXPECT_EQ(frame.value().to_answer, "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(frame.value().to_question, "<|im_end|>\n<|im_start|>user\n");
  EXPECT_NE(frame.value().open.find("<|im_start|>user\n"), std::string::npos);
  auto base = chat_frame(load("gemma3").get());  // not a chat model: no template
  ASSERT_TRUE(base) << base.error();
  EXPECT_EQ(base.value(), ChatFrame{});
}

TEST_F(Answers, ControlTokensInAContextAreText) {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  EXPECT_EQ(tokens_of(vocab, "<|im_end|>", true).size(), 1U);
  EXPECT_GT(tokens_of(vocab, "<|im_end|>", false).size(), 1U);
}

TEST_F(Answers, AWindowForgetsWhatIsOutsideIt) {
  const Sample early = needle(400, 10), late = needle(400, 100);
  const Setting full{"full", {}};
  const auto whole = answerer().answer(full, early)[0];
  EXPECT_TRUE(is_right(whole, early)) << whole.prediction;
  EXPECT_EQ(whole.kept, whole.n_context);
  EXPECT_GT(whole.n_context, 392);
  const auto lost = answerer().answer(window(100), early)[0];
  EXPECT_FALSE(is_right(lost, early)) << lost.prediction;
  EXPECT_EQ(lost.kept, 100);
  EXPECT_LT(lost.bytes, whole.bytes / 2);
  EXPECT_GT(lost.bytes_peak, lost.bytes);
  const auto kept = answerer().answer(window(100), late)[0];
  EXPECT_TRUE(is_right(kept, late)) << kept.prediction;
}

TEST_F(Answers, TheSameContextForEachQuestionKnowsNoEarlierTurn) {
  Sample sample = needle(300, 50);
  sample.questions.push_back(sample.questions[0]);
  AnswerOptions options;
  options.same_context = true;
  const Setting full{"full", {}};
  const auto anew = answerer(options).answer(full, sample);
  EXPECT_EQ(anew[0].prediction, anew[1].prediction);
  const auto turns = answerer().answer(full, sample);
  EXPECT_EQ(turns[0].prediction, anew[0].prediction);
  EXPECT_GT(turns[1].bytes_peak, turns[0].bytes_peak) << "turns go on in one cache";
}

TEST_F(Answers, ContextsThatAreTooLongAreSkippedOrCut) {
  const Sample sample = needle(400, 50);
  AnswerOptions options;
  options.most_tokens = 300;
  const Setting full{"full", {}};
  const auto skipped = answerer(options).answer(full, sample)[0];
  EXPECT_EQ(skipped.status, AnswerStatus::kSkipped);
  EXPECT_NE(skipped.error.find("at most 300"), std::string::npos) << skipped.error;
  options.cut_middle = true;
  const auto cut = answerer(options).answer(full, sample)[0];
  EXPECT_EQ(cut.status, AnswerStatus::kOk) << cut.error;
  EXPECT_LT(cut.n_context, 300);
  EXPECT_FALSE(is_right(cut, sample)) << "the needle was in the middle";
}

TEST_F(Answers, PremiseHidesWhatItSays) {
  auto text = read_text("gpl");
  ASSERT_TRUE(text) << text.error();
  PremisePlan plan;
  plan.tokens = tokenize(llama_model_get_vocab(model_.get()), text.value(), 220).value();
  plan.prefix = 200;
  plan.every = 5;
  SessionParams params;
  params.n_threads = 1;
  std::vector<PremisePoint> points;
  const auto run = [&](int32_t n_done) {
    points.clear();
    auto done = run_premise(model_, params, plan, n_done, [&](const PremisePoint& point) {
      points.push_back(point);
      return Result<void>{};
    });
    EXPECT_TRUE(done) << done.error();
  };
  const auto mean_kl = [&](int32_t hidden) {
    plan.hidden = hidden;
    run(0);
    EXPECT_EQ(points.size(), 4U);
    double sum = 0;
    for (const auto& point : points) sum += point.kl;
    return sum / 4;
  };
  EXPECT_EQ(mean_kl(0), 0) << "a copy of the stream is the stream";
  const double some = mean_kl(20), most = mean_kl(190);
  EXPECT_GT(some, 0.05);
  EXPECT_GT(most, some);
  const auto whole = points;
  run(2);
  ASSERT_EQ(points.size(), 2U) << "goes on behind the second";
  EXPECT_EQ(points[0].position, whole[2].position);
  EXPECT_NEAR(points[0].kl, whole[2].kl, 0.02 * whole[2].kl) << "only rounding differs";
}

}  // namespace
}  // namespace kvasir::eval
