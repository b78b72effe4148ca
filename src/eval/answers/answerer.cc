#include "eval/answers/answerer.h"

#include <algorithm>
#include <chrono>

#include "eval/answers/generation.h"
#include "eval/answers/tokens.h"
#include "eval/data/truncate.h"

namespace kvasir::eval {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kSpareCells = 16;

int32_t count(const std::vector<llama_token>& tokens) {
  return static_cast<int32_t>(tokens.size());
}

void note_counts(const KvCounts& counts, Answer& answer) {
  answer.bytes_peak = counts.bytes_peak;
  answer.evicted = counts.evicted;
  answer.has_confidence = counts.n_confidence > 0;
  answer.mean_confidence = counts.mean_confidence;
}

}  // namespace

Result<Answerer> Answerer::make(std::shared_ptr<llama_model> model, const AnswerOptions& options) {
  auto frame = chat_frame(model.get());
  if (!frame) return Error{frame.error()};
  AnswerOptions own = options;
  if (own.most_tokens == 0) own.most_tokens = llama_model_n_ctx_train(model.get());
  return Answerer(std::move(model), std::move(frame.value()), own);
}

CountTokens Answerer::counter() const {
  return [vocab = vocab()](std::string_view text) {
    return static_cast<int32_t>(tokens_of(vocab, text, false).size());
  };
}

void Answerer::append(std::vector<llama_token>& tokens, std::string_view text, bool control) const {
  const auto more = tokens_of(vocab(), text, control);
  tokens.insert(tokens.end(), more.begin(), more.end());
}

Answerer::Prompt Answerer::prompt_of(const Sample& sample) const {
  Prompt prompt;
  if (sample.chat) append(prompt.context, frame_.open, true);
  begin_text(vocab(), prompt.context);
  append(prompt.context, sample.instructions, false);
  append(prompt.context, sample.context, false);
  for (size_t i = 0; i < sample.questions.size(); ++i) {
    const Question& question = sample.questions[i];
    std::vector<llama_token> tokens;
    if (i > 0 && !options_.same_context) {
      append(tokens, sample.chat ? frame_.to_question : "\n\n", sample.chat);
    }
    append(tokens, question.text, false);
    if (sample.chat && !frame_.to_answer.empty()) {
      append(tokens, frame_.to_answer, true);
    } else if (!question.answer_prefix.empty()) {
      append(tokens, "\n", false);
    }
    append(tokens, question.answer_prefix, false);
    prompt.questions.push_back(std::move(tokens));
  }
  return prompt;
}

int32_t Answerer::tokens_needed(const Prompt& prompt, const Sample& sample) const {
  int32_t all = count(prompt.context);
  int32_t longest = 0;
  for (size_t i = 0; i < sample.questions.size(); ++i) {
    const int32_t turn = count(prompt.questions[i]) + sample.questions[i].max_new_tokens;
    all += turn;
    longest = std::max(longest, turn);
  }
  return options_.same_context ? count(prompt.context) + longest : all;
}

Result<Answerer::Prompt> Answerer::fitting_prompt(const Sample& sample) const {
  Prompt prompt = prompt_of(sample);
  prompt.n_needed = tokens_needed(prompt, sample);
  if (prompt.n_needed > options_.most_tokens) {
    const int32_t room = options_.most_tokens - (prompt.n_needed - count(prompt.context));
    if (!options_.cut_middle || room < 2) {
      return Error{"needs " + std::to_string(prompt.n_needed) + " tokens, at most " +
                   std::to_string(options_.most_tokens) + " are allowed"};
    }
    prompt.context = truncate_middle(prompt.context, static_cast<size_t>(room));
    prompt.n_needed = options_.most_tokens;
  }
  for (size_t i = 0; i < prompt.questions.size(); ++i) {
    if (!prompt.questions[i].empty()) continue;
    return Error{"question " + std::to_string(i + 1) +
                 " has no text, expected some after the context"};
  }
  if (prompt.context.empty()) return Error{"the context is empty"};
  if (options_.question_first && !prompt.questions.empty()) {
    auto& first = prompt.questions.front();
    prompt.context.insert(prompt.context.end(), first.begin(), first.end() - 1);
    first.erase(first.begin(), first.end() - 1);
  }
  return prompt;
}

// One sample under one setting: the session lives from question to question, or is made anew.
class Answerer::Turns {
 public:
  Turns(const Answerer& answerer, const Setting& setting, const Prompt& prompt, uint32_t seed)
      : answerer_(answerer), setting_(setting), prompt_(prompt), seed_(seed) {}

  Result<void> ask(size_t index, const Question& question, Answer& answer) {
    if (kv_ == nullptr || answerer_.options_.same_context) {
      auto compressed = compress();
      if (!compressed) return compressed;
    }
    answer.n_context = count(prompt_.context);
    answer.kept = compressed_.live_tokens;
    answer.bytes = compressed_.bytes;
    auto read = generation_->read(prompt_.questions[index]);
    if (!read) return read;
    auto text = generation_->generate(question.max_new_tokens, question.first_line_only);
    if (!text) return Error{text.error()};
    answer.prediction = std::move(text.value());
    answer.n_new = generation_->n_generated();
    note_counts(kv_->counts(), answer);
    return {};
  }

 private:
  Result<void> compress() {
    generation_.reset();
    kv_.reset();
    SessionParams params = answerer_.options_.session;
    params.n_ctx = prompt_.n_needed + kSpareCells;
    auto opened = KvSession::open(answerer_.model_, setting_.options, params);
    if (!opened) return Error{opened.error()};
    kv_ = std::make_unique<KvSession>(std::move(opened.value()));
    const AnswerOptions& options = answerer_.options_;
    generation_ =
        std::make_unique<Generation>(kv_->session(), options.temperature, options.top_p, seed_);
    auto read = generation_->read(prompt_.context);
    if (!read) return read;
    compressed_ = kv_->counts();
    return {};
  }

  const Answerer& answerer_;
  const Setting& setting_;
  const Prompt& prompt_;
  uint32_t seed_;
  std::unique_ptr<KvSession> kv_;
  std::unique_ptr<Generation> generation_;
  KvCounts compressed_;  // just after the context was read
};

std::vector<Answer> Answerer::answer(const Setting& setting, const Sample& sample,
                                     uint32_t seed) const {
  std::vector<Answer> answers(sample.questions.size());
  auto prompt = fitting_prompt(sample);
  const Prompt none;
  Turns turns(*this, setting, prompt ? prompt.value() : none, seed);
  AnswerStatus status = AnswerStatus::kSkipped;  // what does not fit
  Result<void> done = prompt ? Result<void>{} : Error{prompt.error()};
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto start = Clock::now();
    if (done) {
      status = AnswerStatus::kError;
      done = turns.ask(i, sample.questions[i], answers[i]);
    }
    if (!done) {  // what failed once fails for the questions behind it too
      answers[i].status = status;
      answers[i].error = done.error();
    }
    answers[i].seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return answers;
}

}  // namespace kvasir::eval
