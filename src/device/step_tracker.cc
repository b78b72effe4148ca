#include "device/step_tracker.h"

#include <algorithm>
#include <atomic>
#include <cassert>

#include "base/stopwatch.h"
#include "cache/room.h"
#include "device/device_state.h"
#include "device/graph_walk.h"
#include "device/statistics.h"
#include "device/trace_sink.h"

namespace kvasir::device {
namespace {

std::atomic<int64_t> next_epoch{1};

size_t z(int64_t n) { return static_cast<size_t>(n); }

// The first n values of an i32 input; none if there is no such input.
void read_input(const ggml_tensor* input, int64_t n, std::vector<int32_t>& values) {
  values.clear();
  if (input == nullptr || input->data == nullptr || input->type != GGML_TYPE_I32 ||
      input->ne[0] < n) {
    return;
  }
  const auto* data = static_cast<const int32_t*>(input->data);
  values.assign(data, data + n);
}

}  // namespace

void StepTracker::add_buffer(KvBuffer& buffer) {
  if (std::find(buffers_.begin(), buffers_.end(), &buffer) != buffers_.end()) return;
  buffers_.push_back(&buffer);
}

const StepTracker::Inputs& StepTracker::learn_rows(ggml_tensor* set_rows) {
  return inputs_[set_rows] = {find_input(set_rows->src[0], "inp_pos"),
                              find_input(set_rows->src[0], "inp_tokens"), nullptr};
}

const StepTracker::Inputs& StepTracker::learn_head(ggml_tensor* head) {
  return inputs_[head] = {nullptr, nullptr, find_input(head, "out_ids")};
}

const StepTracker::Inputs& StepTracker::inputs_of(ggml_tensor* node, bool is_head) {
  const auto it = inputs_.find(node);
  if (it != inputs_.end()) return it->second;
  return is_head ? learn_head(node) : learn_rows(node);
}

// Caches of all buffers, and what the ubatch brings each stream.
Result<void> StepTracker::make_room(const KvBuffer& buffer) {
  if (buffer.options().budget_mb == 0) return {};
  std::vector<Cache*> caches;
  caches.reserve(buffers_.size());
  for (KvBuffer* b : buffers_) {
    Result<Cache*> cache = b->cache();
    if (!cache) return Error{cache.error()};
    if (cache.value()->config().n_streams == buffer.n_streams()) caches.push_back(cache.value());
  }
  const auto n_tokens = static_cast<int64_t>(stream_of_.size());
  const auto n_ubatch = static_cast<int32_t>(std::max(n_ubatch_, n_tokens));
  if (!cap_checked_) {
    if (auto fits = check_cap(caches, n_ubatch, parallel_->n_workers()); !fits) return fits;
    cap_checked_ = true;
  }
  std::vector<int32_t> n_new(z(buffer.n_streams()));
  for (size_t i = 0; i < stream_of_.size(); ++i) {
    int32_t& n = n_new[z(stream_of_[i])];
    if (n++ > 0) continue;
    for (Cache* cache : caches) cache->drop_from(stream_of_[i], positions_[i]);
  }
  return kvasir::make_room(caches, n_new, n_ubatch, *parallel_);
}

Result<void> StepTracker::note_rows(KvBuffer& buffer, int32_t layer, ggml_tensor* set_rows) {
  int64_t& last = buffer.last_epoch(layer);
  if (open_ && last != epoch_) {
    last = epoch_;
    return {};
  }
  end_without_logits();
  follow_clears();
  open_ = true;
  epoch_ = next_epoch++;
  last = epoch_;
  const ggml_tensor* indices = set_rows->src[1];
  const int64_t n_tokens = indices->ne[0];
  const auto* rows = static_cast<const int64_t*>(indices->data);
  const Inputs& inputs = inputs_of(set_rows, false);
  read_input(inputs.positions, n_tokens, positions_);
  read_input(inputs.tokens, n_tokens, tokens_);
  stream_of_.resize(z(n_tokens));
  const bool by_cell = positions_.empty();  // no position input: arrival order serves
  if (by_cell) positions_.resize(z(n_tokens));
  for (int64_t i = 0; i < n_tokens; ++i) {
    stream_of_[z(i)] = static_cast<int32_t>(rows[i] / buffer.n_cells());
    if (by_cell) positions_[z(i)] = static_cast<int32_t>(rows[i] % buffer.n_cells());
  }
  for (size_t i = 0; i < stream_of_.size(); ++i) {
    if (i > 0 && stream_of_[i] == stream_of_[i - 1]) continue;
    end_waiting(stream_of_[i], brought_to(stream_of_[i]).n_tokens == 1);
  }
  return make_room(buffer);
}

void StepTracker::end_with_logits(ggml_tensor* head) {
  if (!open_) return;
  const ggml_tensor* ids = inputs_of(head, true).output_ids;
  const auto n_tokens = static_cast<int64_t>(stream_of_.size());
  std::map<int32_t, std::pair<int32_t, int64_t>> newest;  // stream -> (token, output row)
  for (int64_t row = 0; row < head->ne[1]; ++row) {
    const int64_t token = ids == nullptr ? row : static_cast<const int32_t*>(ids->data)[row];
    if (token < 0 || token >= n_tokens) continue;  // not a row of this ubatch
    auto& entry = newest.try_emplace(stream_of_[z(token)], -1, -1).first->second;
    if (token > entry.first) entry = {static_cast<int32_t>(token), row};
  }
  int64_t nanoseconds = 0;
  const auto n_vocab = static_cast<int32_t>(head->ne[0]);
  std::vector<std::pair<int32_t, const float*>> logits;  // of each stream
  for (const auto& [stream, entry] : newest) {
    if (entry.first < 0) continue;
    logits.emplace_back(
        stream, reinterpret_cast<const float*>(static_cast<const std::byte*>(head->data) +
                                               entry.second * static_cast<int64_t>(head->nb[1])));
  }
  std::vector<Confidence> found(logits.size());
  {
    const Stopwatch watch(nanoseconds);
    parallel_->run(static_cast<int64_t>(logits.size()), [&](int64_t i, int32_t /*worker*/) {
      found[z(i)] = confidence_of(kernels_->logit_sums(logits[z(i)].second, n_vocab), n_vocab);
    });
  }
  std::map<int32_t, Confidence> confidences;
  for (size_t i = 0; i < logits.size(); ++i) confidences[logits[i].first] = found[i];
  for (KvBuffer* buffer : buffers_) {
    const Cache* cache = buffer->cache_if_made();
    if (cache == nullptr || cache->config().dense) continue;
    statistics().add_confidence_time(buffer->id(), nanoseconds);
    break;
  }
  end_ubatch(confidences);
}

void StepTracker::end_without_logits() {
  if (open_) end_ubatch({});
}

StepTracker::Brought StepTracker::brought_to(int32_t stream) const {
  Brought brought;
  for (size_t i = 0; i < stream_of_.size(); ++i) {
    if (stream_of_[i] != stream) continue;
    brought.pos = positions_[i];
    brought.token = tokens_.empty() ? -1 : tokens_[i];
    ++brought.n_tokens;
  }
  return brought;
}

void StepTracker::end_ubatch(const std::map<int32_t, Confidence>& confidences) {
  open_ = false;
  const bool moves = std::any_of(buffers_.begin(), buffers_.end(),
                                 [](const KvBuffer* b) { return b->options().moves_rows(); });
  const bool head_seen = std::any_of(buffers_.begin(), buffers_.end(),
                                     [](const KvBuffer* b) { return wants_head(b->options()); });
  std::vector<int32_t> streams = stream_of_;
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  for (const int32_t stream : streams) {
    Brought brought = brought_to(stream);
    const auto it = confidences.find(stream);
    if (it != confidences.end()) brought.confidence = it->second;
    if (moves && brought.confidence && brought.n_tokens > 1) {
      streams_[stream].waiting = brought;
      continue;
    }
    // Where the head is not seen, one token at a time counts as decoding.
    end_stream(stream, brought,
               brought.confidence.has_value() || (!head_seen && brought.n_tokens == 1));
  }
}

void StepTracker::end_waiting(int32_t stream, bool decoding) {
  std::optional<Brought>& waiting = streams_[stream].waiting;
  if (!waiting) return;
  const Brought brought = *waiting;
  waiting.reset();
  end_stream(stream, brought, decoding);
}

void StepTracker::end_stream(int32_t stream, const Brought& brought, bool decoded) {
  StepState state;
  state.decoded = decoded;
  state.confidence = brought.confidence ? &*brought.confidence : nullptr;
  StepRecord record;
  record.stream = stream;
  record.pos = brought.pos;
  record.token = brought.token;
  record.has_confidence = brought.confidence.has_value();
  if (brought.confidence) record.confidence = *brought.confidence;
  bool any_main = false;
  for (KvBuffer* buffer : buffers_) {
    Cache* cache = buffer->cache_if_made();
    if (cache == nullptr || stream >= buffer->n_streams()) continue;
    if (cache->config().dense) {  // counts in bytes only
      StepRecord other;
      other.stream = stream;
      cache->end_step(stream, state, *parallel_, other);
      record.bytes_f16 += other.bytes_f16;
      record.bytes_demoted += other.bytes_demoted;
      statistics().note(buffer->id(), *cache, other);
    } else {
      cache->end_step(stream, state, *parallel_, record);
      statistics().note(buffer->id(), *cache, record);
      any_main = true;
    }
  }
  if (!any_main) return;
  Stream& s = streams_[stream];
  record.step = s.n_steps++;
  emit(s, record);
}

// The first record waits for a second: the warm-up of a context is one step, after which the caches
// are cleared, and is no part of anybody's trace.
void StepTracker::emit(Stream& stream, const StepRecord& record) {
  if (record.step == 0) {
    stream.held = record;
    return;
  }
  if (stream.held) trace_sink().write(*stream.held);
  stream.held.reset();
  trace_sink().write(record);
}

void StepTracker::finish() {
  end_without_logits();
  follow_clears();
  for (auto& [index, stream] : streams_) {
    end_waiting(index, false);
    if (stream.held) trace_sink().write(*stream.held);
    stream.held.reset();
  }
}

void StepTracker::follow_clears() {
  int64_t n = 0;
  for (const KvBuffer* buffer : buffers_) n += buffer->n_clears();
  if (n != n_clears_) streams_.clear();
  n_clears_ = n;
}

}  // namespace kvasir::device
