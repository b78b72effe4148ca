#include "eval/session.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>

namespace kvasir::eval {
namespace {

void log_all(ggml_log_level /*level*/, const char* text, void* /*user*/) { fputs(text, stderr); }

// A continued line (GGML_LOG_LEVEL_CONT) has the level of the line that it continues.
void log_warnings(ggml_log_level level, const char* text, void* /*user*/) {
  static thread_local bool shown = false;
  if (level != GGML_LOG_LEVEL_CONT) shown = level >= GGML_LOG_LEVEL_WARN;
  if (shown) fputs(text, stderr);
}

}  // namespace

void set_llama_log(bool verbose) { llama_log_set(verbose ? log_all : log_warnings, nullptr); }

Result<std::shared_ptr<llama_model>> load_model(const std::string& path,
                                                ggml_backend_dev_t device) {
  std::array<ggml_backend_dev_t, 2> devices = {device, nullptr};
  llama_model_params params = llama_model_default_params();
  params.devices = devices.data();
  llama_model* model = llama_model_load_from_file(path.c_str(), params);
  if (model == nullptr) return Error{"cannot load the model " + path};
  return std::shared_ptr<llama_model>(model, llama_model_free);
}

Result<Session> Session::open(std::shared_ptr<llama_model> model, const SessionParams& params) {
  llama_context_params context = llama_context_default_params();
  context.n_ctx = static_cast<uint32_t>(params.n_ctx) * static_cast<uint32_t>(params.n_sequences);
  context.n_ubatch = static_cast<uint32_t>(params.n_ubatch);
  context.n_batch = std::max(context.n_ubatch, 512U);
  context.n_seq_max = static_cast<uint32_t>(params.n_sequences);
  context.n_threads = params.n_threads;
  context.n_threads_batch = params.n_threads;
  context.flash_attn_type = params.flash_attention;
  context.swa_full = params.swa_full;
  context.kv_unified = false;
  context.cb_eval = params.on_node;
  context.cb_eval_user_data = params.on_node_data;

  Session session;
  session.model_ = std::move(model);
  session.context_.reset(llama_init_from_model(session.model_.get(), context));
  if (!session.context_) {
    return Error{"cannot create a context of " + std::to_string(context.n_ctx) + " cells"};
  }
  session.n_vocab_ = llama_vocab_n_tokens(session.vocab());
  return session;
}

Result<void> Session::decode(std::span<const llama_token> tokens, llama_pos first_pos,
                             Outputs outputs, llama_seq_id sequence) {
  std::vector<BatchToken> batch;
  batch.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool output =
        outputs == Outputs::kAll || (outputs == Outputs::kLast && i + 1 == tokens.size());
    batch.push_back({tokens[i], first_pos + static_cast<llama_pos>(i), sequence, output});
  }
  return decode(batch);
}

Result<void> Session::decode(std::span<const BatchToken> tokens) {
  llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
  batch.n_tokens = static_cast<int32_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.token[i] = tokens[i].token;
    batch.pos[i] = tokens[i].pos;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = tokens[i].sequence;
    batch.logits[i] = tokens[i].output ? 1 : 0;
  }
  const int32_t code = llama_decode(context_.get(), batch);
  llama_batch_free(batch);
  if (code != 0) {
    return Error{"llama_decode of " + std::to_string(tokens.size()) + " tokens from position " +
                 std::to_string(tokens.empty() ? 0 : tokens.front().pos) + " returned " +
                 std::to_string(code)};
  }
  llama_synchronize(context_.get());
  return {};
}

Result<void> Session::fill(std::span<const llama_token> tokens, llama_pos first_pos,
                           llama_seq_id sequence) {
  const size_t chunk = static_cast<size_t>(n_batch());
  for (size_t i = 0; i < tokens.size(); i += chunk) {
    const auto part = tokens.subspan(i, std::min(chunk, tokens.size() - i));
    auto done = decode(part, first_pos + static_cast<llama_pos>(i), Outputs::kNone, sequence);
    if (!done) return done;
  }
  return {};
}

std::span<const float> Session::logits(int32_t i) const {
  const float* row = llama_get_logits_ith(context_.get(), i);
  assert(row != nullptr);
  return {row, static_cast<size_t>(n_vocab_)};
}

Result<void> Session::truncate(llama_pos first_pos, llama_seq_id sequence) {
  if (llama_memory_seq_rm(memory(), sequence, first_pos, -1)) return {};
  return Error{"this model's memory cannot forget the tokens from position " +
               std::to_string(first_pos) + " on"};
}

}  // namespace kvasir::eval
