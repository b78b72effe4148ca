#include "eval/answers/generation.h"

#include <cassert>

#include "eval/answers/tokens.h"

namespace kvasir::eval {
namespace {

// True if `text` has a line that is not empty and has ended.
bool has_ended_line(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text.find('\n', first) != std::string::npos;
}

std::string first_line(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find('\n', first) - first);
}

}  // namespace

Generation::Generation(Session& session, double temperature, double top_p, uint32_t seed)
    : session_(&session) {
  sampler_.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  if (temperature > 0) {
    llama_sampler_chain_add(sampler_.get(), llama_sampler_init_top_p(static_cast<float>(top_p), 1));
    llama_sampler_chain_add(sampler_.get(),
                            llama_sampler_init_temp(static_cast<float>(temperature)));
    llama_sampler_chain_add(sampler_.get(), llama_sampler_init_dist(seed));
  } else {
    llama_sampler_chain_add(sampler_.get(), llama_sampler_init_greedy());
  }
}

Result<void> Generation::read(std::span<const llama_token> tokens) {
  assert(!tokens.empty());
  const auto chunk = static_cast<size_t>(session_->n_batch());
  const size_t last = tokens.size() - 1;
  for (size_t i = 0; i < last; i += chunk) {
    const auto part = tokens.subspan(i, std::min(chunk, last - i));
    auto done = session_->decode(part, position_, Outputs::kNone);
    if (!done) return done;
    position_ += static_cast<llama_pos>(part.size());
  }
  auto done = session_->decode(tokens.subspan(last), position_, Outputs::kLast);
  if (!done) return done;
  ++position_;
  return {};
}

llama_token Generation::choose() {
  return llama_sampler_sample(sampler_.get(), session_->context(), -1);
}

Result<std::string> Generation::generate(int32_t most, bool first_line_only) {
  std::string text;
  n_generated_ = 0;
  while (n_generated_ < most) {
    const llama_token token = choose();
    if (llama_vocab_is_eog(session_->vocab(), token)) break;
    ++n_generated_;
    text += text_of(session_->vocab(), token);
    auto done = read(std::span(&token, 1));
    if (!done) return Error{done.error()};
    if (first_line_only && has_ended_line(text)) break;
  }
  return first_line_only ? first_line(text) : text;
}

}  // namespace kvasir::eval
