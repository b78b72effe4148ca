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

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/confidence.h"

namespace kvasir {

/// What a policy must be given. Each costs something, so the default is nothing.
struct Needs {
  bool confidence = false;       ///< logits of the step; the output head is claimed for it
  bool step_mass = false;        ///< attention mass of each decode step
  int32_t observed_queries = 0;  ///< queries of a prompt whose mass seeds the state, 0..64

  Needs operator|(const Needs& other) const;
};

/// What is known of a stream when a step ends.
struct StepState {
  bool decoded = false;                    ///< false: a prompt chunk without an output row
  const Confidence* confidence = nullptr;  ///< null where no logits were seen
};

/// How many tokens a layer may keep after a step.
class BudgetRule {
 public:
  virtual ~BudgetRule() = default;
  virtual Needs needs() const { return {}; }
  /// Live tokens that layer `layer` of `n_layers` may keep, all counted (sinks and protected too).
  /// INT32_MAX: no limit.
  virtual int32_t tokens(const StepState& step, int32_t layer, int32_t n_layers) const = 0;
  /// The largest value tokens() can give; INT32_MAX when there is no limit.
  virtual int32_t max_tokens() const = 0;
};

/// The tokens of one layer that may be evicted: sinks and protected ones are left out.
struct Candidates {
  std::span<const int32_t> positions;  ///< [n] ascending
  std::span<const float> state;        ///< [n] what observe() left there; empty without step_mass
};

/// Which tokens are worth keeping.
class Ranker {
 public:
  virtual ~Ranker() = default;
  virtual Needs needs() const { return {}; }
  /// Folds attention mass into the state of a layer's tokens. Called once for each decode step, and
  /// once after a prompt (prefill = true, mass = mean over the observed queries).
  /// @param mass     [n] attention probability of the step, mean over query heads
  /// @param n_fresh  the last n_fresh tokens arrived since the previous call; their state is 0
  /// @param state    [n] in and out
  virtual void observe(std::span<const float> mass, int32_t n_fresh, bool prefill,
                       std::span<float> state) const;
  /// Scores candidates; the lowest are evicted, on ties the older. Must not produce NaN.
  /// Requires: scores.size() == candidates.positions.size().
  virtual void score(const Candidates& candidates, std::span<float> scores) const = 0;
};

/// Parameters that policies read; names and defaults are those of the --kv-* flags.
struct PolicyParams {
  int32_t budget = 0;    ///< --kv-budget; 0: not given
  int32_t high = 0;      ///< --kv-high; 0: not given
  int32_t low = 0;       ///< --kv-low; 0: not given
  double tau = 0.7;      ///< --kv-tau
  double alpha = 0.65;   ///< --kv-alpha
  double lambda = 0.90;  ///< --kv-lambda
  int32_t protect = 32;  ///< --kv-protect: newest tokens that are never evicted
  int32_t sinks = 4;     ///< --kv-sinks: first tokens that are never evicted

  bool operator==(const PolicyParams&) const = default;
};

struct Policy {
  std::string name;
  std::unique_ptr<BudgetRule> budget;
  std::unique_ptr<Ranker> ranker;  ///< null: nothing is ever evicted
  int32_t sinks = 0;
  int32_t protect = 0;
  Needs needs() const;
  bool evicts() const { return ranker != nullptr; }
};

/// Makes the policy registered as `name`. Fails with one line that names the flag, the value and
/// what is allowed: an unknown name lists the known ones; N_high > N_low; budget < sinks +
/// protected
/// + 1 (window protects nothing); negative protect or sinks; tau, alpha or lambda outside [0, 1] or
/// NaN; window without a budget, none with one; a parameter that the policy does not read and that
/// is not at its default (none accepts sinks: it keeps them anyway).
Result<Policy> make_policy(std::string_view name, const PolicyParams& params);

/// Registered names, in order of registration.
std::vector<std::string_view> policy_names();

}  // namespace kvasir
