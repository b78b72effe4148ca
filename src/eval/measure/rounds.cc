#include "eval/measure/rounds.h"

#include <algorithm>

#include "device/device.h"
#include "eval/progress.h"
#include "eval/run/methods.h"
#include "eval/session.h"
#include "kvasir/kvasir.h"

namespace kvasir::eval {
namespace {

Result<Session> open_side(const std::string& path, ggml_backend_dev_t device,
                          const MeasureFlags& flags, const PairedPlan& plan) {
  auto model = load_model(path, device);
  if (!model) return Error{model.error()};
  SessionParams params;
  constexpr int32_t kCells = 256;  // llama.cpp rounds to these, and warns
  params.n_ctx = (plan.n_positions() + kCells - 1) / kCells * kCells;
  params.n_ubatch = flags.n_ubatch;
  params.n_threads = flags.n_threads;
  params.n_sequences = plan.n_sequences();
  return Session::open(model.value(), params);
}

// Bytes of a token's rows in stock's f16 cache; 0 where layers differ in what they keep of it.
int64_t f16_token_bytes(const llama_model* model) {
  char text[16];
  const bool differ = llama_model_n_swa(model) > 0 || llama_model_is_recurrent(model) ||
                      llama_model_is_hybrid(model);
  char architecture[64] = "";
  llama_model_meta_val_str(model, "general.architecture", architecture, sizeof(architecture));
  const std::string latent = std::string(architecture) + ".attention.kv_lora_rank";
  if (differ || llama_model_meta_val_str(model, latent.c_str(), text, sizeof(text)) >= 0) return 0;
  const RowGeometry g = row_geometry(model);
  return int64_t{2} * g.n_layers * g.n_kv_heads * (g.head_dim_k + g.head_dim_v);
}

int64_t stock_bytes(const Session& session, int32_t n_sequences) {
  int64_t tokens = 0;
  for (llama_seq_id s = 0; s < n_sequences; ++s) {
    tokens += llama_memory_seq_pos_max(session.memory(), s) + 1;
  }
  return tokens * f16_token_bytes(llama_get_model(session.context()));
}

// Of all caches of the process: there is one session on the device.
int64_t kvasir_bytes(const Session& /*session*/, int32_t n_sequences) {
  int64_t bytes = 0;
  for (int32_t s = 0; s < n_sequences; ++s) {
    kvasir_stats stats{};
    if (kvasir_get_stream_stats(s, &stats) == 1) bytes += stats.rows_bytes;
  }
  return bytes;
}

// The pairs of one round. Where memory comes to lie when a session is opened shifts its speed by a
// few per cent for as long as it lives, in favour of the later one; so rounds take turns in that
// too.
Result<std::vector<PairedSamples>> run_round(const std::string& path, const MeasureFlags& flags,
                                             const PairedPlan& plan, bool stock_first,
                                             const OnProgress& progress, int64_t& peak_bytes) {
  const auto device = flags.control ? nullptr : device::register_device();
  auto first = open_side(path, stock_first ? nullptr : device, flags, plan);
  if (!first) return Error{first.error()};
  auto second = open_side(path, stock_first ? device : nullptr, flags, plan);
  if (!second) return Error{second.error()};
  Session& stock = stock_first ? first.value() : second.value();
  Session& kvasir = stock_first ? second.value() : first.value();
  auto samples = run_paired(stock, kvasir, plan, progress);
  kvasir_stats stats{};  // of live caches, so before the sessions end
  if (kvasir_get_stats(&stats) == 1) peak_bytes = std::max(peak_bytes, stats.peak_bytes);
  return samples;
}

}  // namespace

Result<Rounds> run_rounds(const std::string& path, const MeasureFlags& flags) {
  PairedPlan plan = flags.plan;
  plan.repetitions = (flags.plan.repetitions + 1) / 2;
  plan.a_bytes = stock_bytes;
  plan.b_bytes = flags.control ? stock_bytes : kvasir_bytes;
  Progress progress(2 * plan_units(plan));
  const OnProgress advance = [&](double units, const std::string& next) {
    progress.advance(units, next);
  };
  Rounds rounds;
  for (const bool stock_first : {true, false}) {
    auto round = run_round(path, flags, plan, stock_first, advance, rounds.kv_bytes_peak);
    if (!round) return Error{round.error()};
    append_samples(rounds.samples, round.value());
  }
  return rounds;
}

}  // namespace kvasir::eval
