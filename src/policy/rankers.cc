#include "policy/rankers.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>
#include <utility>

#include "policy/budgets.h"
#include "policy/checks.h"

namespace kvasir {
namespace {

class RecencyRanker final : public Ranker {
 public:
  void score(const Candidates& candidates, std::span<float> scores) const override {
    assert(scores.size() == candidates.positions.size());
    // Above 2^24 neighbours may round to one float. Rounding keeps the order, and on ties the
    // older token goes: the outcome is the same as with exact scores.
    std::transform(candidates.positions.begin(), candidates.positions.end(), scores.begin(),
                   [](int32_t position) { return static_cast<float>(position); });
  }
};

}  // namespace

void StateRanker::score(const Candidates& candidates, std::span<float> scores) const {
  assert(scores.size() == candidates.state.size());
  std::copy(candidates.state.begin(), candidates.state.end(), scores.begin());
}

std::unique_ptr<Ranker> recency_ranker() { return std::make_unique<RecencyRanker>(); }

float finite_mass(float mass) { return std::isfinite(mass) ? mass : 0.0F; }

void fold_average(const Mass& seen, double lambda, std::span<float> state, int32_t stride) {
  const size_t n = seen.mass.size();
  const auto step = static_cast<size_t>(stride);
  assert(state.size() == n * step);
  assert(seen.n_fresh >= 0 && static_cast<size_t>(seen.n_fresh) <= n);
  const size_t n_known = n - static_cast<size_t>(seen.n_fresh);
  for (size_t i = 0; i < n; ++i) {
    const double m = finite_mass(seen.mass[i]);
    float& a = state[i * step];
    const bool seed = seen.kind == Mass::Kind::kObserved && i >= n_known;
    a = static_cast<float>(seed ? m : lambda * a + (1 - lambda) * m);
  }
}

void mean_norms(const ArrivingRows& rows, float* out, int32_t stride) {
  for (int32_t i = 0; i < rows.n_rows; ++i) {
    const float* row = rows.data + i * rows.stride;
    double sum = 0;
    for (int32_t h = 0; h < rows.n_kv_heads; ++h, row += rows.head_dim) {
      double squares = 0;
      for (int32_t d = 0; d < rows.head_dim; ++d) squares += double{row[d]} * row[d];
      sum += std::sqrt(squares);
    }
    const double norm = sum / rows.n_kv_heads;
    out[ptrdiff_t{i} * stride] = std::isfinite(norm) ? static_cast<float>(norm) : 0.0F;
  }
}

Result<Policy> make_ranked_policy(std::string_view name, const PolicyParams& params, uint32_t reads,
                                  int32_t protect, std::unique_ptr<Ranker> ranker) {
  if (auto ok = check_params(name, params, reads); !ok) return Error{ok.error()};
  Policy policy;
  policy.name = name;
  policy.sinks = params.sinks;
  policy.protect = params.protect.value_or(protect);
  auto budget = make_budget(name, params, budget_floor(policy.sinks, policy.protect));
  if (!budget) return Error{budget.error()};
  policy.budget = std::move(budget.value());
  policy.ranker = std::move(ranker);
  return policy;
}

}  // namespace kvasir
