// What a player is asked to do on a site, which facts that takes, and the plan that does it.
//
// Knows sites and what counts as done; does not act. Everything follows from kind and seed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/agent/site.h"

namespace kvasir::eval::agent {

/// Something that the right play must know at some step and was told on an earlier page.
struct Fact {
  std::string name;    ///< for people: "price of KL-204"
  std::string phrase;  ///< stands in an observation word for word, nothing else reads like it
  std::string value;   ///< the last occurrence inside the phrase is the span that must survive
  std::string source;  ///< the path of a page that says it; empty: the first observation only
};

/// A fact's value, or nothing where it was lost. As many as the step's needs, in their order.
using Remembered = std::span<const std::optional<std::string>>;

enum class PlanKind { kOpen, kType, kPress, kSearch, kAnswer };

/// One step of the plan; opening a page may take several actions.
struct PlanStep {
  PlanKind kind = PlanKind::kOpen;
  std::string page;           ///< kType, kPress: where it is done; empty: wherever one is
  std::string label;          ///< of the field or button
  std::vector<size_t> needs;  ///< facts without which it goes wrong
  /// kOpen: the path; kType, kSearch, kAnswer: the text. Wrong, but well-formed, if facts are lost.
  std::function<std::string(Remembered)> argument;
};

/// What must be true at the end; only one of the three is set.
struct Outcome {
  std::vector<CartLine> order;      ///< exactly these, in any order
  std::vector<Field> fields;        ///< of the form, or of the checkout with an order
  std::string form;                 ///< path of the form that must be sent
  std::vector<std::string> answer;  ///< each must occur in the answer, with no other number
};

struct Task {
  std::string kind;
  uint64_t seed = 0;
  std::string goal;  ///< the first message's first lines
  Site site;
  std::vector<Fact> facts;
  std::vector<PlanStep> plan;
  Outcome outcome;
};

struct TaskKind {
  std::string_view name;
  std::string_view text;  ///< what it asks for, for people
  void (*make)(Task& task, Random& random);
};

/// All kinds, in the order in which they are shown.
std::span<const TaskKind> task_kinds();

/// Task `seed` of a kind; options.seed is replaced by a seed made of both. Fails with one line that
/// lists the kinds or names the wrong length.
Result<Task> make_task(std::string_view kind, uint64_t seed, SiteOptions options = {});

/// "21" of "21 days", "4.90" of "4.90 crowns": the unit may be left out where a value is entered.
std::string without_unit(const std::string& value);

/// Whether `text` holds every part as whole words, in any case, and no other number.
bool answers(std::string_view text, std::span<const std::string> parts);

}  // namespace kvasir::eval::agent
