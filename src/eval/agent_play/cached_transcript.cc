#include "eval/agent_play/cached_transcript.h"

#include <algorithm>
#include <cassert>

#include "eval/answers/tokens.h"

namespace kvasir::eval {

using agent::Message;
using agent::Role;

CachedTranscript::CachedTranscript(KvSession& kv, const ChatFrame& frame, int32_t most_tokens)
    : kv_(kv), frame_(frame), most_tokens_(most_tokens), generation_(kv.session(), 0, 1, 0) {}

Result<void> CachedTranscript::append(const Message& message) {
  if (message.role == Role::kSystem) {
    system_ = message.text + "\n\n";  // goes with the first observation
    return {};
  }
  if (message.role == Role::kUser) return read_observation(message.text);
  if (reply_is_read_) {
    reply_is_read_ = false;
    return {};
  }
  return read_reply(message.text);
}

Result<void> CachedTranscript::check_room(size_t n) {
  const size_t needed = static_cast<size_t>(n_tokens()) + n;
  if (needed <= static_cast<size_t>(most_tokens_)) return {};
  out_of_room_ = true;
  return Error{"the transcript needs " + std::to_string(needed) + " tokens, at most " +
               std::to_string(most_tokens_) + " are allowed; see --most-tokens and --page-tokens"};
}

Result<void> CachedTranscript::read_observation(const std::string& text) {
  const llama_vocab* vocab = kv_.session().vocab();
  const bool first = observations_.empty();
  std::vector<llama_token> tokens =
      tokens_of(vocab, first ? frame_.open : frame_.to_question, true);
  if (first) begin_text(vocab, tokens);
  const auto system = tokens_of(vocab, system_, false);
  tokens.insert(tokens.end(), system.begin(), system.end());
  system_.clear();
  Span span;
  span.first = n_tokens() + static_cast<int32_t>(tokens.size());
  size_t end = 0;
  for (const llama_token token : tokens_of(vocab, text, false)) {
    tokens.push_back(token);
    end += text_of(vocab, token).size();
    span.ends.push_back(end);
  }
  const auto answer = tokens_of(vocab, frame_.to_answer.empty() ? "\n" : frame_.to_answer, true);
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  auto room = check_room(tokens.size());
  if (!room) return room;
  observations_.push_back(std::move(span));
  return generation_.read(tokens);
}

Result<void> CachedTranscript::read_reply(const std::string& text) {
  const auto tokens = tokens_of(kv_.session().vocab(), text, false);
  auto room = check_room(tokens.size());
  for (size_t i = 0; room && i < tokens.size(); ++i) {
    room = generation_.read(std::span(tokens).subspan(i, 1));
  }
  return room;
}

Result<std::string> CachedTranscript::generate(int32_t most_tokens) {
  auto room = check_room(static_cast<size_t>(most_tokens));
  if (!room) return Error{room.error()};
  auto text = generation_.generate(most_tokens, true);
  n_generated_ += generation_.n_generated();
  reply_is_read_ = true;
  return text;
}

// Mean over the tokens that the characters touch of the share of layers that hold them.
double CachedTranscript::held(size_t observation, size_t begin, size_t end) const {
  assert(observation < observations_.size() && begin < end);
  if (held_at_ != n_tokens()) {
    held_at_ = n_tokens();
    held_ = kv_.held(held_at_);
  }
  const Span& span = observations_[observation];
  const auto first = std::upper_bound(span.ends.begin(), span.ends.end(), begin);
  double sum = 0;
  int32_t n = 0;
  for (auto it = first; it != span.ends.end(); ++it) {
    sum += held_[static_cast<size_t>(span.first) + static_cast<size_t>(it - span.ends.begin())];
    ++n;
    if (*it >= end) break;
  }
  return n == 0 ? 0 : sum / n;
}

}  // namespace kvasir::eval
