// Texts to tokens and back, piece by piece.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llama.h"

namespace kvasir::eval {

/// Tokens of a piece of text. `control`: names of control tokens in it are read as such.
/// No first or last token is added.
std::vector<llama_token> tokens_of(const llama_vocab* vocab, std::string_view text, bool control);

/// Appends the vocabulary's own first token if it wants one and `tokens` is empty.
void begin_text(const llama_vocab* vocab, std::vector<llama_token>& tokens);

/// The text of one token, empty for a control token.
std::string text_of(const llama_vocab* vocab, llama_token token);

}  // namespace kvasir::eval
