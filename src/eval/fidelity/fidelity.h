// Streaming teacher forcing: how far a setting's next-token distributions are from the reference's.
//
// The first tokens of a text are a prompt; from there every token is given one by one, so that the
// policy acts between any two of them (a block that is scored at once hides eviction). Protocol:
// StreamingLLM's and CONF-KV's perplexity. Knows sessions and distributions; prints nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "eval/fidelity/reference_rows.h"
#include "eval/run/kv_session.h"

namespace kvasir::eval {

struct FidelityPlan {
  std::vector<llama_token> tokens;  ///< all of the text that is read
  int32_t prefix = 0;               ///< given as a prompt; 1 <= prefix < tokens
  int32_t n_rows() const { return static_cast<int32_t>(tokens.size()) - prefix; }
};

/// What one step of a setting did.
struct FidelityStep {
  int32_t position = 0;  ///< of the token that was given
  RowComparison row;
  double c = 0;  ///< confidence of the setting's own distribution
  double live = 0;
  int64_t bytes = 0;
  double ms = 0;  ///< wall time of the step
  /// Parts of it, from the cache's own clocks.
  double attention_ms = 0, append_ms = 0, metadata_ms = 0, compaction_ms = 0, confidence_ms = 0;
};

struct FidelityRun {
  std::vector<FidelityStep> steps;  ///< [n_rows]
  KvCounts counts;                  ///< at the end
};

/// Called with each row of logits, for dumps; may be empty.
using OnRow = std::function<void(std::span<const float>)>;
/// Called after each step.
using OnStep = std::function<void()>;

/// Reads the prefix, and gives the row that follows it to `on_row`.
/// The reference's rows: row i is the distribution after token prefix + i - 1, compared with token
/// prefix + i. Fails with one line.
/// @param step_ms  where the wall time of each step goes; may be null
Result<WholeRows> collect_rows(Session& session, const FidelityPlan& plan, const OnRow& on_row,
                               const OnStep& on_step, std::vector<double>* step_ms = nullptr);

/// Runs a setting against the reference. Fails with one line.
Result<FidelityRun> run_fidelity(KvSession& kv, const FidelityPlan& plan,
                                 const ReferenceRows& reference, const OnRow& on_row,
                                 const OnStep& on_step);

}  // namespace kvasir::eval
