// Which tokens stay: a policy is a budget rule (how many) and a ranker (which).
//
// A policy knows neither how rows are stored nor what attention computes; src/cache/ asks it at the
// end of a step and turns the answer into moves. A new method is one file in this folder and one
// line in registry.cc.
//
// Shapes are [outer, ..., inner]. Tokens of a layer are always listed in ascending position.
// Thread safety: policies are immutable after construction; all methods are const and may run for
// several layers at once.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/confidence.h"

namespace kvasir {

/// How the query heads of a token's attention become one number.
enum class HeadReduction { kMean, kMax };

/// What a policy must be given. Each costs something, so the default is nothing.
struct Needs {
  bool confidence = false;       ///< logits of the step; the output head is claimed for it
  bool step_mass = false;        ///< attention mass of each decode step
  int32_t observed_queries = 0;  ///< newest queries that are observed after a prompt, 0..64
  int32_t observe_every = 0;     ///< decode steps between two more such windows; 0: none
  /// Attention mass of every query of a prompt, each added to state[0] of the tokens it sees, query
  /// by query: chunks of a prompt cannot matter.
  bool column_sums = false;
  bool rows = false;                           ///< K and V rows as they arrive
  bool keys = false;                           ///< stored K rows when candidates are scored
  HeadReduction heads = HeadReduction::kMean;  ///< of every mass above

  Needs operator|(const Needs& other) const;
};

/// What is known of a stream when a step ends.
struct StepState {
  bool decoded = false;                    ///< false: a prompt chunk without an output row
  const Confidence* confidence = nullptr;  ///< null where no logits were seen
  int64_t step = 0;      ///< steps of the stream that asked for a budget before this one
  int32_t n_tokens = 0;  ///< tokens that the stream has seen: newest position + 1
  /// Tokens per layer that --kv-budget-mb leaves the stream; INT32_MAX: it sets no limit yet.
  int32_t allowance = INT32_MAX;
};

/// What a budget rule may know of a layer.
struct LayerState {
  int32_t layer = 0;  ///< counted over the layers of the cache, 0 <= layer < n_layers
  int32_t n_layers = 1;
  int32_t live = 0;  ///< live tokens, those of the step included
};

/// How many tokens a layer may keep after a step.
class BudgetRule {
 public:
  virtual ~BudgetRule() = default;
  virtual Needs needs() const { return {}; }
  /// Live tokens that a layer may keep, all counted (sinks and protected too). INT32_MAX: no limit.
  virtual int32_t tokens(const StepState& step, const LayerState& layer) const = 0;
};

/// Stored K rows of one layer, as attention reads them: rotated, rounded to their format.
class KeyReader {
 public:
  virtual ~KeyReader() = default;
  virtual int32_t n_tokens() const = 0;  ///< live tokens, sinks and protected ones included
  virtual int32_t n_kv_heads() const = 0;
  virtual int32_t head_dim() const = 0;
  /// Reads the key of one live token and KV head. row: [head_dim].
  virtual void read(int32_t token, int32_t head, std::span<float> row) const = 0;
};

/// The tokens of one layer that may be evicted: sinks and protected ones are left out.
struct Candidates {
  std::span<const int32_t> positions;  ///< [n] ascending
  std::span<const float> state;        ///< [n, n_state]
  std::span<int32_t> scratch;          ///< [n] room to sort in, any content
  int32_t layer = 0;
  int32_t first = 0;                ///< live tokens before the first candidate
  int64_t step = 0;                 ///< as in StepState
  int32_t newest = 0;               ///< position of the stream's newest token
  const KeyReader* keys = nullptr;  ///< null unless Needs::keys
};

/// Attention mass as a ranker is shown it.
struct Mass {
  enum class Kind { kStep, kObserved };
  Kind kind = Kind::kStep;      ///< of one decode step, or of a window of observed queries
  std::span<const float> mass;  ///< [n] attention probability: heads reduced, mean over queries
  int32_t n_queries = 1;        ///< queries that mass is the mean of
  int32_t n_fresh = 0;          ///< the last n_fresh tokens were not in any mass before
  int64_t step = 0;             ///< as in StepState
};

/// Rows of tokens that arrive, f32, before they are rounded.
struct ArrivingRows {
  enum class Kind { kKeys, kValues };
  Kind kind = Kind::kKeys;
  const float* data = nullptr;  ///< row i at data + i * stride, [n_kv_heads, head_dim]
  ptrdiff_t stride = 0;         ///< elements
  int32_t n_rows = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
};

/// Which tokens are worth keeping. Its memory of a token is n_state() floats, which start at 0,
/// move with the token and leave with it: state is always [n, n_state], one row a token.
class Ranker {
 public:
  virtual ~Ranker() = default;
  virtual Needs needs() const { return {}; }
  /// Floats per token and layer. Bits may be kept in them: they are copied, never computed with.
  virtual int32_t n_state() const { return 0; }
  /// Folds attention mass into the state of all tokens of a layer: after each decode step (with
  /// step_mass), after a prompt (with observed_queries), each observe_every steps.
  virtual void observe(const Mass& seen, std::span<float> state) const;
  /// Takes note of tokens that arrive (with rows), once for their keys, once for their values.
  /// state: [n_rows, n_state] of these tokens.
  virtual void arrive(const ArrivingRows& rows, std::span<float> state) const;
  /// Scores candidates; the lowest are evicted, on ties the older. Must not produce NaN.
  /// Requires: scores.size() == candidates.positions.size().
  virtual void score(const Candidates& candidates, std::span<float> scores) const = 0;
};

/// --kv-pyramid BETA,NMIN: deeper layers keep less.
struct Pyramid {
  double beta = 1;
  int32_t n_min = 0;
  bool operator==(const Pyramid&) const = default;
};

/// How CONF-KV scales attention before it is added to recency (--kv-scale).
enum class AttentionScale { kMinMax, kRank, kLog };

/// Parameters that policies read; names and defaults are those of the --kv-* flags. Empty: the
/// policy's own default.
struct PolicyParams {
  int32_t budget = 0;              ///< --kv-budget N; 0: not given
  double budget_percent = 0;       ///< --kv-budget P%; 0: not given
  bool from_cap = false;           ///< --kv-budget-mb alone: the budget is StepState::allowance
  int32_t high = 0;                ///< --kv-high; 0: not given
  int32_t low = 0;                 ///< --kv-low; 0: not given
  double tau = 0.7;                ///< --kv-tau
  std::optional<double> alpha;     ///< --kv-alpha
  std::optional<double> lambda;    ///< --kv-lambda
  std::optional<int32_t> protect;  ///< --kv-protect: newest tokens that are never evicted
  int32_t sinks = 4;               ///< --kv-sinks: first tokens that are never evicted
  HeadReduction heads = HeadReduction::kMean;  ///< --kv-heads
  int32_t seed = 0;                            ///< --kv-seed
  bool by_age = false;                         ///< --kv-by-age
  std::optional<Pyramid> pyramid;              ///< --kv-pyramid
  int32_t shrink = 0;                          ///< --kv-shrink; 0: at once
  int32_t burst = 1;                           ///< --kv-burst
  bool blend = false;                          ///< --kv-blend
  bool values = false;                         ///< --kv-values
  std::optional<AttentionScale> scale;         ///< --kv-scale
  std::string schedule_path;                   ///< --kv-schedule; empty: none
  /// Budget of each step, read from schedule_path by whoever may read files. Policies read it only.
  std::vector<int32_t> schedule;

  bool operator==(const PolicyParams&) const = default;
};

struct Policy {
  std::string name;
  std::unique_ptr<BudgetRule> budget;
  std::unique_ptr<Ranker> ranker;  ///< null: nothing is ever evicted
  int32_t sinks = 0;
  int32_t protect = 0;              ///< newest tokens that are never evicted
  double protect_share = 0;         ///< the same as share of the layer's budget; the larger counts
  bool positions_in_cache = false;  ///< tokens count by place in the cache unless asked otherwise
  Needs needs() const;
  bool evicts() const { return ranker != nullptr; }
};

/// Makes the policy registered as `name`. Fails with one line that names the flag, the value and
/// what is allowed: an unknown name lists the known ones; so do a value out of range, a budget with
/// no room beside sinks and protected tokens, a policy without the budget it needs, and a parameter
/// that the policy does not read and that is not at its default (none accepts sinks: it keeps them
/// anyway).
Result<Policy> make_policy(std::string_view name, const PolicyParams& params);

/// Registered names, in order of registration.
std::vector<std::string_view> policy_names();

}  // namespace kvasir
