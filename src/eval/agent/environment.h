// A visit to the site of one task: actions in, pages out, and whether the task is done.
//
// Deterministic: the same actions give the same texts. Knows where each fact of the task was shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/agent/action.h"
#include "eval/agent/task.h"

namespace kvasir::eval::agent {

/// Characters [begin, end) of an observation.
struct Showing {
  size_t observation = 0;
  size_t begin = 0;
  size_t end = 0;
};

struct EnvironmentOptions {
  int32_t max_steps = 30;
};

class Environment {
 public:
  explicit Environment(Task task, EnvironmentOptions options = {});

  /// Starts over at the home page. Returns the first observation: the goal, then the page.
  const std::string& reset();

  /// Carries out the action in a player's reply and returns what it sees then. A reply that cannot
  /// be read or names what is not there is answered with one line and counts as a step.
  /// Requires: reset() was called and !done().
  const std::string& step(std::string_view reply);

  /// An order, a form that was sent or an answer ends the visit, and so does the last step.
  bool done() const { return done_; }
  bool success() const { return success_; }
  int32_t steps() const { return steps_; }
  int32_t max_steps() const { return options_.max_steps; }
  int32_t failed_parse() const { return failed_parse_; }

  const Task& task() const { return task_; }
  const Page& page() const { return page_; }
  /// Where "back" leads, if anywhere.
  std::optional<std::string> previous() const;
  /// What was seen since reset(), the first observation at 0.
  const std::vector<std::string>& observations() const { return observations_; }
  /// Where the fact has stood since reset().
  const std::vector<Showing>& showings(size_t fact) const { return showings_[fact]; }

 private:
  const std::string& observe(std::string text);
  const std::string& refuse(const std::string& what);
  const std::string& show(const std::string& path, bool remember);
  const std::string& click(int32_t number);
  const std::string& press(const Element& button);
  const std::string& type(int32_t number, const std::string& text);
  const std::string& finish(bool success, const std::string& what);
  bool order_is_right() const;
  bool fields_are_right(const std::string& path) const;

  Task task_;
  EnvironmentOptions options_;
  Page page_;
  Visit visit_;
  std::vector<std::string> history_;
  std::vector<std::string> observations_;
  std::vector<std::vector<Showing>> showings_;
  int32_t steps_ = 0;
  int32_t failed_parse_ = 0;
  bool done_ = false;
  bool success_ = false;
};

/// What the system message says: the grammar, with an example.
std::string_view action_rules();

}  // namespace kvasir::eval::agent
