// A model reads a context, the cache compresses it, and questions follow.
//
// The context's last token is given alone, so that an evicting policy acts on the whole context
// before any question is seen (question after compression); or the first question is part of what
// is compressed, as in the query-aware protocols. Each sample has a context of its own. Greedy
// unless a temperature is asked for. Knows no metric.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "eval/answers/chat_frame.h"
#include "eval/run/kv_session.h"
#include "eval/run/settings.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

struct AnswerOptions {
  SessionParams session;        ///< n_ctx is chosen for each sample
  int32_t most_tokens = 0;      ///< of a sample, all turns; longer contexts are cut or skipped
  bool cut_middle = false;      ///< cut a context that is too long in its middle, else skip it
  bool question_first = false;  ///< the first question is compressed with the context
  bool same_context = false;    ///< each question anew on the compressed context, no earlier turns
  double temperature = 0;       ///< 0: greedy
  double top_p = 0.95;          ///< with a temperature
};

enum class AnswerStatus { kOk, kError, kSkipped };

struct Answer {
  AnswerStatus status = AnswerStatus::kOk;
  std::string error;       ///< unless ok
  std::string prediction;  ///< without the answer's given beginning
  int32_t n_context = 0;   ///< tokens compressed
  int32_t n_new = 0;       ///< tokens generated
  double kept = 0;         ///< tokens per layer after compression
  int64_t bytes = 0;       ///< of the cache after compression
  int64_t bytes_peak = 0;  ///< so far
  double evicted = 0;      ///< tokens per layer so far
  double mean_confidence = 0;
  bool has_confidence = false;
  double seconds = 0;
};

class Answerer {
 public:
  /// `model` was loaded onto the device. Fails with one line on a chat template of another kind.
  static Result<Answerer> make(std::shared_ptr<llama_model> model, const AnswerOptions& options);

  /// Answers each question of the sample in order, under one setting. Always as many answers as
  /// questions: what went wrong is in their status. `seed` counts with a temperature only.
  std::vector<Answer> answer(const Setting& setting, const Sample& sample, uint32_t seed = 1) const;

  /// Counts tokens as the model's vocabulary does. Valid while the model lives.
  CountTokens counter() const;

 private:
  struct Prompt {
    std::vector<llama_token> context;                 // what is compressed
    std::vector<std::vector<llama_token>> questions;  // what follows, each with its frame
    int32_t n_needed = 0;                             // cells for all of it and the answers
  };
  class Turns;
  Answerer(std::shared_ptr<llama_model> model, ChatFrame frame, AnswerOptions options)
      : model_(std::move(model)), frame_(std::move(frame)), options_(options) {}
  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }
  Prompt prompt_of(const Sample& sample) const;
  // Tokens of all turns with their longest answers.
  int32_t tokens_needed(const Prompt& prompt, const Sample& sample) const;
  // Cut or refused where it is too long, and with the question inside where that is asked for.
  Result<Prompt> fitting_prompt(const Sample& sample) const;
  void append(std::vector<llama_token>& tokens, std::string_view text, bool control) const;

  std::shared_ptr<llama_model> model_;
  ChatFrame frame_;
  AnswerOptions options_;
};

}  // namespace kvasir::eval
