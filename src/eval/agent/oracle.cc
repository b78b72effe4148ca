#include "eval/agent/oracle.h"

#include <algorithm>

#include "eval/agent/task_parts.h"

namespace kvasir::eval::agent {

OraclePlayer::OraclePlayer(const Environment& environment, const Memory& memory,
                           OracleOptions options)
    : environment_(environment),
      memory_(memory),
      options_(options),
      lookups_(environment.task().facts.size(), 0) {}

Result<std::string> OraclePlayer::act(std::span<const Message> /*transcript*/) {
  const auto& plan = environment_.task().plan;
  while (step_ < plan.size()) {
    auto reply = play(plan[step_]);
    if (reply) return *std::move(reply);
  }
  return answer(kUnknown);  // the plan is over or led to where nothing can be done
}

bool OraclePlayer::knows(size_t fact) const {
  const auto& showings = environment_.showings(fact);
  return std::any_of(showings.begin(), showings.end(), [&](const Showing& showing) {
    return memory_.held(showing.observation, showing.begin, showing.end) >= options_.threshold;
  });
}

std::vector<std::optional<std::string>> OraclePlayer::recall(const PlanStep& step) {
  std::vector<std::optional<std::string>> values;
  for (const size_t fact : step.needs) {
    values.emplace_back(std::nullopt);
    if (knows(fact)) values.back() = environment_.task().facts[fact].value;
  }
  return values;
}

// Whether the step must wait for a page that tells a lost fact. Only what was seen before can be
// looked up: who never saw a fact does not know where it stands.
bool OraclePlayer::starts_lookup(const PlanStep& step) {
  bool started = false;
  for (const size_t fact : step.needs) {
    const bool known = knows(fact);
    if (!counted_) {
      ++counts_.facts_needed;
      if (!known) ++counts_.facts_lost;
    }
    const std::string& source = environment_.task().facts[fact].source;
    if (known || started || source.empty() || environment_.showings(fact).empty()) continue;
    if (lookups_[fact] >= options_.max_lookups) continue;
    ++lookups_[fact];
    ++counts_.lookups;
    looks_up_ = source;
    started = true;
  }
  counted_ = true;
  return started;
}

// One action on the way: the link to the page or to its nearest ancestor that the page at hand has.
std::optional<std::string> OraclePlayer::towards(const std::string& path) const {
  const Page& page = environment_.page();
  std::optional<std::string> wanted = path;
  while (wanted && *wanted != page.path) {
    if (const Element* link = page.link_to(*wanted)) return click(link->number);
    if (*wanted == path && environment_.previous() == path) return std::string("back");
    wanted = environment_.task().site.parent(*wanted);
  }
  return std::nullopt;
}

std::optional<std::string> OraclePlayer::play(const PlanStep& step) {
  const std::string& here = environment_.page().path;
  if (looks_up_) {
    auto way = here == *looks_up_ ? std::nullopt : towards(*looks_up_);
    if (way) return way;
    looks_up_.reset();  // it is here, or nowhere
  }
  if (step.kind == PlanKind::kOpen) {
    if (!opens_) {
      if (starts_lookup(step)) return std::nullopt;
      opens_ = step.argument(recall(step));
    }
    auto way = here == *opens_ ? std::nullopt : towards(*opens_);
    if (!way) next_step();
    return way;
  }
  if (!step.page.empty() && here != step.page) {
    auto way = towards(step.page);
    if (!way) next_step();
    return way;
  }
  if (starts_lookup(step)) return std::nullopt;
  const std::string reply = perform(step);
  next_step();
  return reply;
}

std::string OraclePlayer::perform(const PlanStep& step) {
  const Page& page = environment_.page();
  const std::string text = step.argument ? step.argument(recall(step)) : "";
  switch (step.kind) {
    case PlanKind::kType:
    case PlanKind::kPress: {
      const bool is_field = step.kind == PlanKind::kType;
      const Element* element =
          page.find(is_field ? ElementKind::kField : ElementKind::kButton, step.label);
      const int32_t number = element == nullptr ? 0 : element->number;
      return is_field ? type(number, text) : click(number);
    }
    case PlanKind::kSearch:
      return search(text);
    case PlanKind::kOpen:
    case PlanKind::kAnswer:
      break;
  }
  return answer(text);
}

void OraclePlayer::next_step() {
  ++step_;
  counted_ = false;
  opens_.reset();
}

}  // namespace kvasir::eval::agent
