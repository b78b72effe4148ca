// A llama.cpp model with one context, as evaluations use it: greedy for errors, quiet, exact.
//
// Knows how a model is placed (CPU alone, or a device that owns the K/V cache) and how tokens are
// fed; knows nothing of what is measured. Every failure of llama.cpp becomes one line of text.
// Not thread-safe; several sessions may live side by side in one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ggml-backend.h"
#include "llama-cpp.h"
#include "llama.h"

namespace kvasir::eval {

/// Sends llama.cpp's warnings and errors to stderr and drops the rest. `verbose` keeps all.
void set_llama_log(bool verbose);

/// Loads the model file onto `device`, or onto the CPU alone when it is null. Weights stay mapped.
/// Fails with one line that names the path.
Result<std::shared_ptr<llama_model>> load_model(const std::string& path, ggml_backend_dev_t device);

struct SessionParams {
  int32_t n_ctx = 512;     ///< cells of one sequence
  int32_t n_ubatch = 512;  ///< tokens of one graph
  int32_t n_threads = 2;
  int32_t n_sequences = 1;  ///< each is a stream of its own
  /// AUTO: llama.cpp switches it off for the whole model if a device declines one layer.
  llama_flash_attn_type flash_attention = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  bool swa_full = false;  ///< sliding-window layers with as many cells as the others
  /// Is asked of each node of a graph, and shown those it wants (llama.h: cb_eval).
  ggml_backend_sched_eval_callback on_node = nullptr;
  void* on_node_data = nullptr;
};

/// Which tokens of a batch yield logits.
enum class Outputs { kNone, kLast, kAll };

/// One token of a mixed batch.
struct BatchToken {
  llama_token token;
  llama_pos pos;
  llama_seq_id sequence;
  bool output;
};

class Session {
 public:
  /// Makes a context on `model` with f16 rows. Fails with one line.
  static Result<Session> open(std::shared_ptr<llama_model> model, const SessionParams& params);

  /// Decodes `tokens` at positions first_pos, first_pos + 1, ... of `sequence`, as one batch.
  /// Requires: no more tokens than n_batch() and cells enough. Fails with llama_decode's code.
  Result<void> decode(std::span<const llama_token> tokens, llama_pos first_pos, Outputs outputs,
                      llama_seq_id sequence = 0);

  /// Decodes tokens of several sequences as one batch.
  Result<void> decode(std::span<const BatchToken> tokens);

  /// decode() in chunks of n_batch() tokens without any output.
  Result<void> fill(std::span<const llama_token> tokens, llama_pos first_pos,
                    llama_seq_id sequence = 0);

  /// Logits of the i-th token of the last batch, counted over the tokens, or of the last output
  /// for -1: [n_vocab] f32, valid until the next decode. Requires: that token was an output.
  std::span<const float> logits(int32_t i = -1) const;

  /// Removes the tokens of `sequence` at positions >= first_pos. Fails if the model's memory can
  /// only forget whole sequences.
  Result<void> truncate(llama_pos first_pos, llama_seq_id sequence = 0);

  int32_t n_vocab() const { return n_vocab_; }
  int32_t n_batch() const { return static_cast<int32_t>(llama_n_batch(context_.get())); }
  llama_context* context() const { return context_.get(); }
  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }

 private:
  Session() = default;

  std::shared_ptr<llama_model> model_;
  llama_context_ptr context_;
  int32_t n_vocab_ = 0;
};

}  // namespace kvasir::eval
