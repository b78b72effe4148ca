// What a model's chat template puts around a question and its answer.
//
// Found by rendering a conversation with marks in place of the texts, so that contexts and
// questions can be given piece by piece and never be read as control tokens themselves.
#pragma once

#include <string>

#include "base/result.h"
#include "llama.h"

namespace kvasir::eval {

struct ChatFrame {
  std::string open;         ///< before the first user text
  std::string to_answer;    ///< between a user text and the answer
  std::string to_question;  ///< between an answer and the next user text
  bool operator==(const ChatFrame&) const = default;
};

/// The frame of the model's own template; nothing around anything if it has none. Fails with one
/// line if the template does not show all texts in order.
Result<ChatFrame> chat_frame(const llama_model* model);

}  // namespace kvasir::eval
