// Steps of a context: what a ubatch brought, and what ends it.
//
// A ubatch begins with the first K rows of a layer that already took rows. It ends when the output
// head has run, or else when the next begins or the backend is freed. At the end the newest output
// row of each stream gives its confidence and every cache of the context ends the stream's step.
// Front ends ask for logits in the middle of a prompt too (at each batch), so with an evicting
// policy an output after several tokens waits for the stream's next ubatch: one token means that
// decoding began, and the step evicts before that token is read; several mean that the prompt goes
// on. One caller at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "device/kv_buffer.h"
#include "ggml.h"

namespace kvasir::device {

class StepTracker {
 public:
  StepTracker(const KvKernels& kernels, ParallelFor& parallel)
      : kernels_(&kernels), parallel_(&parallel) {}

  /// Adds a KV buffer of this context. Repeating is free.
  void add_buffer(KvBuffer& buffer);
  std::span<KvBuffer* const> buffers() const { return buffers_; }

  /// Looks up, when a graph is built, where the first K rows of a ubatch or the logits have their
  /// inputs, so that no step has to search. Returns them; null where there is none.
  struct Inputs {
    ggml_tensor* positions = nullptr;
    ggml_tensor* tokens = nullptr;
    ggml_tensor* output_ids = nullptr;
  };
  const Inputs& learn_rows(ggml_tensor* set_rows);
  const Inputs& learn_head(ggml_tensor* head);

  /// Notes how many tokens a graph is built for: the largest counts as the ubatch.
  void note_ubatch(int64_t n_tokens) { n_ubatch_ = std::max(n_ubatch_, n_tokens); }

  /// Call before K rows of a SET_ROWS are stored: begins a ubatch where that is due, and makes room
  /// for it under --kv-budget-mb. Fails with one line where the cap is too small.
  Result<void> note_rows(KvBuffer& buffer, int32_t layer, ggml_tensor* set_rows);

  /// Ends the ubatch with its logits. `head` is the node that holds them, [vocab, n_outputs].
  void end_with_logits(ggml_tensor* head);
  /// Ends the ubatch, if one is open, without logits.
  void end_without_logits();
  /// Writes what is held back; no step follows.
  void finish();

  /// Position of each token of the ubatch, in batch order.
  std::span<const int32_t> positions() const { return positions_; }
  /// A number that is new for each ubatch.
  int64_t epoch() const { return epoch_; }

 private:
  // What a ubatch brought a stream.
  struct Brought {
    int32_t pos = 0;     // of the newest token
    int32_t token = -1;  // its id
    int32_t n_tokens = 0;
    std::optional<Confidence> confidence;  // of its newest output row
  };
  struct Stream {
    int64_t n_steps = 0;
    std::optional<Brought> waiting;  // an output after several tokens
    std::optional<StepRecord> held;  // the first step, until another follows: a warm-up has one
  };
  // Where the caches were cleared, steps count anew and what is held back is dropped.
  void follow_clears();
  Result<void> make_room(const KvBuffer& buffer);
  Brought brought_to(int32_t stream) const;
  void end_ubatch(const std::map<int32_t, Confidence>& confidences);
  void end_waiting(int32_t stream, bool decoding);
  void end_stream(int32_t stream, const Brought& brought, bool decoded);
  void emit(Stream& stream, const StepRecord& record);

  // A node keeps its inputs until a graph is built in its place, which is learnt anew.
  const Inputs& inputs_of(ggml_tensor* node, bool is_head);

  const KvKernels* kernels_;
  ParallelFor* parallel_;
  std::unordered_map<const ggml_tensor*, Inputs> inputs_;
  std::vector<KvBuffer*> buffers_;
  bool open_ = false;
  int64_t n_clears_ = 0;  // of all buffers, when last looked at
  int64_t epoch_ = 0;
  int64_t n_ubatch_ = 0;
  bool cap_checked_ = false;
  std::vector<int32_t> positions_, tokens_, stream_of_;  // [n_tokens]
  std::map<int32_t, Stream> streams_;
};

}  // namespace kvasir::device
