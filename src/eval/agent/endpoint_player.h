// Any OpenAI-compatible endpoint as the player: POST ADDRESS/v1/chat/completions.
//
// Knows HTTP and the shape of requests and replies; knows nothing of the task. What comes back is
// not trusted: its size, status and every field used are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "eval/agent/player.h"

namespace kvasir::eval::agent {

struct EndpointOptions {
  /// "http://127.0.0.1:8080", "https://host/v1" or the whole path up to "/chat/completions".
  std::string address;
  std::string model;
  std::string key_variable;       ///< environment variable with the key; empty: no key is sent
  double timeout_seconds = 120;   ///< of one try, connecting included
  int32_t retries = 2;            ///< after no answer, 408, 429 and 5xx
  double retry_wait_seconds = 1;  ///< before the first retry, doubled for each further one
  int32_t max_tokens = 256;       ///< of one reply
  size_t max_body_bytes = 1 << 20;
};

class EndpointPlayer : public Player {
 public:
  /// Checks the options and reads the key; does not connect. Fails with one line.
  static Result<std::unique_ptr<EndpointPlayer>> make(const EndpointOptions& options);

  /// Sends the transcript, greedy, and returns the first choice's text. Fails with one line that
  /// names the address.
  Result<std::string> act(std::span<const Message> transcript) override;

 private:
  EndpointPlayer() = default;

  EndpointOptions options_;
  std::string host_;  ///< "http://127.0.0.1:8080"
  std::string path_;
  std::string key_;
};

}  // namespace kvasir::eval::agent
