#include "eval/answers/tokens.h"

#include <array>

namespace kvasir::eval {

std::vector<llama_token> tokens_of(const llama_vocab* vocab, std::string_view text, bool control) {
  std::vector<llama_token> tokens(text.size() + 4);
  const auto size = static_cast<int32_t>(text.size());
  int32_t n = llama_tokenize(vocab, text.data(), size, tokens.data(),
                             static_cast<int32_t>(tokens.size()), false, control);
  if (n < 0) {  // more tokens than bytes: said with the number needed
    tokens.resize(static_cast<size_t>(-n));
    n = llama_tokenize(vocab, text.data(), size, tokens.data(), static_cast<int32_t>(tokens.size()),
                       false, control);
  }
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

void begin_text(const llama_vocab* vocab, std::vector<llama_token>& tokens) {
  if (tokens.empty() && llama_vocab_get_add_bos(vocab)) tokens.push_back(llama_vocab_bos(vocab));
}

std::string text_of(const llama_vocab* vocab, llama_token token) {
  std::array<char, 256> piece;
  const int32_t n = llama_token_to_piece(vocab, token, piece.data(),
                                         static_cast<int32_t>(piece.size()), 0, false);
  return n <= 0 ? std::string() : std::string(piece.data(), static_cast<size_t>(n));
}

}  // namespace kvasir::eval
