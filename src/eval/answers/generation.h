// Reading and generating on one session, position after position.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "eval/session.h"

namespace kvasir::eval {

class Generation {
 public:
  /// Greedy if temperature is 0, else nucleus sampling from `seed`.
  Generation(Session& session, double temperature, double top_p, uint32_t seed);

  /// Gives tokens at the next positions; the last one alone and with logits, which is where an
  /// evicting policy acts. Requires: at least one token.
  Result<void> read(std::span<const llama_token> tokens);

  /// Generates after read() until the model ends its turn, `most` tokens, or the first line that is
  /// not empty ends, if that is asked for. The text without the end.
  Result<std::string> generate(int32_t most, bool first_line_only);

  int32_t n_generated() const { return n_generated_; }
  llama_pos next_position() const { return position_; }

 private:
  llama_token choose();

  Session* session_;
  llama_sampler_ptr sampler_;
  llama_pos position_ = 0;
  int32_t n_generated_ = 0;
};

}  // namespace kvasir::eval
