// Budget rules that several policies share, and how --kv-budget and its relatives become one.
//
// Rules are built from inside out: a number, a share or a recorded schedule; then the pyramid over
// layers; then how fast a budget may fall and how many tokens leave at once. Each rule keeps the
// limit of the rule inside it at every step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/policy.h"

namespace kvasir {

/// The least that a budget must hold: what may never leave, and one token more.
struct BudgetFloor {
  int64_t tokens = 1;
  std::string text;  ///< how it comes about: "--kv-sinks 4 + --kv-protect 32 + 1"
};
BudgetFloor budget_floor(int32_t sinks, int32_t protect);

/// Always `tokens`.
std::unique_ptr<BudgetRule> fixed_budget(int32_t tokens);
/// max(floor, percent / 100 of the tokens that the stream has seen), rounded down.
std::unique_ptr<BudgetRule> share_budget(double percent, int64_t floor);
/// max(floor, share of what --kv-budget-mb leaves the stream), rounded down.
std::unique_ptr<BudgetRule> cap_budget(double share, int64_t floor);
/// N(l) = min(N, max(n_min, N * beta^(l / L))), rounded down; N of the rule inside.
std::unique_ptr<BudgetRule> pyramid_budget(std::unique_ptr<BudgetRule> inside, Pyramid pyramid);
/// Falls by at most `step` tokens a step: max(N, live - step), but never above what the rule inside
/// gives to an unsure step.
std::unique_ptr<BudgetRule> shrink_budget(std::unique_ptr<BudgetRule> inside, int32_t step);
/// A layer that is over N gives up `burst` tokens at once: it is cut to max(floor, N + 1 - burst),
/// and the next burst - 1 tokens find room.
std::unique_ptr<BudgetRule> burst_budget(std::unique_ptr<BudgetRule> inside, int32_t burst,
                                         int64_t floor);

/// The rule that --kv-budget N, --kv-budget P%, --kv-schedule or --kv-budget-mb asks for, in a
/// pyramid where
/// --kv-pyramid does. Fails with one line if none of them is given or it is below the floor.
Result<std::unique_ptr<BudgetRule>> make_budget(std::string_view name, const PolicyParams& params,
                                                const BudgetFloor& floor);

/// Wraps `inside` where --kv-pyramid is given. Fails if NMIN is below the floor or BETA not in
/// (0, 1].
Result<std::unique_ptr<BudgetRule>> with_pyramid(std::unique_ptr<BudgetRule> inside,
                                                 const PolicyParams& params,
                                                 const BudgetFloor& floor);

/// Fails unless 0 < P <= 100.
Result<void> check_percent(double percent);

}  // namespace kvasir
