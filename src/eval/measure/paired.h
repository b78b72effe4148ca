// Paired speed measurements: two sessions in one process, timed in turns.
//
// Absolute times drift with whatever else the machine does; what two neighbours in time have in
// common cancels in their ratio. So each repetition times A and then B (and B before A in every
// other one), and ratios are taken inside the pair before the median is.
// Knows two sessions and depths; knows nothing of devices, flags and tables. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/progress.h"
#include "eval/session.h"

namespace kvasir::eval {

/// Bytes of K and V that a step over sequences [0, n_sequences) of a session reads; 0: not known.
using ReadBytes = std::function<int64_t(const Session& session, int32_t n_sequences)>;

struct PairedPlan {
  std::vector<int32_t> depths = {0};   ///< tokens already in each sequence, ascending
  std::vector<int32_t> batches = {1};  ///< sequences that decode at once, ascending
  int32_t prefill = 512;               ///< tokens of one measured prompt chunk; 0: none
  int32_t decode = 32;  ///< tokens of one measured generation, each sequence; 0: none
  int32_t repetitions = 5;
  uint64_t seed = 1;    ///< of the tokens
  bool refill = false;  ///< start each depth from an empty cache
  /// b evicts, and what it evicted cannot be brought back: prompt chunks end without an output, so
  /// that nothing leaves, and generations of b go on from one sample to the next, at its budget.
  bool b_evicts = false;
  /// Sequences behind the first are filled by copying it; false: each reads its tokens.
  bool copies = true;
  ReadBytes a_bytes = nullptr;  ///< of session a; null: not known
  ReadBytes b_bytes = nullptr;  ///< of session b

  int32_t n_sequences() const { return batches.back(); }
  /// Positions that a sequence needs.
  int32_t n_positions() const;
};

/// Seconds of one kind of work at one depth, pair by pair.
struct PairedSamples {
  int32_t depth = 0;
  bool is_prefill = false;
  int32_t tokens = 0;     ///< of each sample and sequence
  std::vector<double> a;  ///< [repetitions] seconds
  std::vector<double> b;  ///< [repetitions] seconds
  int32_t batch = 1;      ///< sequences at once
  /// Decode: bytes of K and V that the last timed step of a and b read; 0: not known.
  int64_t a_bytes = 0, b_bytes = 0;
};

/// Whether two are of the same kind of work, at whatever depth.
bool is_same_kind(const PairedSamples& x, const PairedSamples& y);

/// "pp512 @ d0", "tg32 @ d4096", "tg32 x4 @ d4096" for four sequences at once.
std::string test_name(const PairedSamples& samples);

/// Adds the samples of a further round of the same plan to `all`. Requires: `all` is empty, or
/// holds the same tests in the same order.
void append_samples(std::vector<PairedSamples>& all, const std::vector<PairedSamples>& round);

/// Median tokens per second of one side, all sequences together.
double tokens_per_second(const PairedSamples& samples, const std::vector<double>& seconds);

/// Median and range of b's speed over a's, pair by pair.
struct Ratio {
  double median = 0;
  double low = 0;
  double high = 0;
};
Ratio speed_ratio(const PairedSamples& samples);

/// Decodes `tokens` in each of the first `batch` sequences at once, each from another token on.
Result<void> generate(Session& session, std::span<const llama_token> tokens, int32_t batch);

/// Units of work of the whole plan, for a progress line.
double plan_units(const PairedPlan& plan);

/// Runs the plan: at each depth both caches are filled, then prompt chunks and generations are
/// timed in turns after one untimed round each, those of one sequence first. Measured tokens are
/// removed again before the next sample, so that each starts at its depth exactly. Fails with one
/// line if a session does. Requires: sessions of plan.n_sequences() sequences.
Result<std::vector<PairedSamples>> run_paired(Session& a, Session& b, const PairedPlan& plan,
                                              const OnProgress& progress);

}  // namespace kvasir::eval
