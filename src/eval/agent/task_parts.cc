#include "eval/agent/task_parts.h"

#include <cassert>

namespace kvasir::eval::agent {

size_t add_fact(Task& task, Fact fact) {
  assert(fact.phrase.rfind(fact.value) != std::string::npos);
  task.facts.push_back(std::move(fact));
  return task.facts.size() - 1;
}

size_t add_line_fact(Task& task, const std::string& line, const std::string& source) {
  const size_t colon = line.rfind(": ");
  return add_fact(task, {line.substr(0, colon), line, line.substr(colon + 2), source});
}

size_t add_clause_fact(Task& task, const Clause& clause) {
  return add_fact(task, {clause.label, Site::clause_line(clause), clause.value,
                         Site::topic_path(clause.topic)});
}

size_t add_goal_fact(Task& task, std::string name, std::string phrase, std::string value) {
  assert(task.goal.find(phrase) != std::string::npos);
  return add_fact(task, {std::move(name), std::move(phrase), std::move(value), ""});
}

void open(Task& task, std::string path) {
  open_by(task, {}, [path = std::move(path)](Remembered) { return path; });
}

void open_by(Task& task, std::vector<size_t> needs,
             std::function<std::string(Remembered)> path_of) {
  task.plan.push_back({PlanKind::kOpen, "", "", std::move(needs), std::move(path_of)});
}

void press(Task& task, std::string page, std::string label) {
  task.plan.push_back({PlanKind::kPress, std::move(page), std::move(label), {}, nullptr});
}

void type_fact(Task& task, std::string page, std::string label, size_t fact) {
  task.plan.push_back({PlanKind::kType, std::move(page), std::move(label), {fact}, joined});
}

void search_fact(Task& task, size_t fact) {
  task.plan.push_back({PlanKind::kSearch, "", "", {fact}, joined});
}

void answer_by(Task& task, std::vector<size_t> needs, std::function<std::string(Remembered)> text) {
  task.plan.push_back({PlanKind::kAnswer, "", "", std::move(needs), std::move(text)});
}

std::string joined(Remembered values) {
  std::string text;
  for (const auto& value : values) {
    text += text.empty() ? "" : ", ";
    text += value ? *value : std::string(kUnknown);
  }
  return text;
}

std::vector<size_t> sample(Random& random, size_t size, size_t count) {
  assert(count <= size);
  std::vector<size_t> all(size);
  for (size_t i = 0; i < size; ++i) all[i] = i;
  random.shuffle(all);
  all.resize(count);
  return all;
}

int64_t hundredths(const std::string& value) {
  int64_t number = 0;
  int32_t decimals = -1;
  for (const char c : value) {
    if (c == '.') {
      decimals = 0;
    } else if (c >= '0' && c <= '9') {
      number = number * 10 + (c - '0');
      if (decimals >= 0) ++decimals;
    } else {
      break;
    }
  }
  for (int32_t i = decimals < 0 ? 0 : decimals; i < 2; ++i) number *= 10;
  return number;
}

}  // namespace kvasir::eval::agent
