// The messages of an episode in a model's context, and what its cache still holds of them.
//
// Each message is read once, as it comes. Observations end with a decoded token, so that an
// evicting policy acts before the reply; replies are read or generated token by token. Knows no
// task.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "eval/agent/oracle.h"
#include "eval/agent/player.h"
#include "eval/answers/chat_frame.h"
#include "eval/answers/generation.h"
#include "eval/run/kv_session.h"

namespace kvasir::eval {

class CachedTranscript : public agent::Memory {
 public:
  /// Both must outlive the transcript. `most_tokens`: cells of the session.
  CachedTranscript(KvSession& kv, const ChatFrame& frame, int32_t most_tokens);

  /// Reads a message; a reply that generate() made is in the context already. Fails with one line
  /// when the cells are used up.
  Result<void> append(const agent::Message& message);

  /// The model's own reply, one line. Fails like append().
  Result<std::string> generate(int32_t most_tokens);

  double held(size_t observation, size_t begin, size_t end) const override;

  int32_t n_tokens() const { return static_cast<int32_t>(generation_.next_position()); }
  int32_t n_generated() const { return n_generated_; }
  /// True once a message was refused because the cells are used up.
  bool out_of_room() const { return out_of_room_; }

 private:
  // Where an observation's tokens lie and where each ends in its text.
  struct Span {
    int32_t first = 0;         // position of the first token
    std::vector<size_t> ends;  // characters, ascending
  };
  Result<void> read_observation(const std::string& text);
  Result<void> read_reply(const std::string& text);
  Result<void> check_room(size_t n);

  KvSession& kv_;
  const ChatFrame& frame_;
  int32_t most_tokens_;
  Generation generation_;
  std::string system_;
  std::vector<Span> observations_;
  bool reply_is_read_ = false;
  int32_t n_generated_ = 0;
  bool out_of_room_ = false;
  mutable std::vector<double> held_;  // by position; of held_at_ tokens
  mutable int32_t held_at_ = -1;
};

}  // namespace kvasir::eval
