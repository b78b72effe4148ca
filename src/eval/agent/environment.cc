#include "eval/agent/environment.h"

#include <algorithm>
#include <cassert>

namespace kvasir::eval::agent {
namespace {

// Typed texts longer than this would make pages longer than promised.
constexpr size_t kMostTyped = 200;

std::string elements_range(const Page& page) {
  return "the page has [1] to " + bracketed(page.elements.size());
}

}  // namespace

std::string_view action_rules() {
  return "You visit a web site with two shops and help pages. Each page comes as text in which "
         "links, buttons and fields are numbered. Reply with one line, which is one action:\n"
         "click[NUMBER] follows a link or presses a button\n"
         "type[NUMBER][TEXT] writes into a field, over what it held\n"
         "search[TEXT] searches the whole site\n"
         "back returns to the page before\n"
         "answer[TEXT] answers a question and ends the visit\n"
         "Example: a page shows \"[7] field City: (empty)\" and \"[8] button: Send the form\". To "
         "write Kelso there, reply type[7][Kelso] and, when the page is shown again, click[8].\n"
         "Notice what you will need on later pages. Placing an order, sending a form or answering "
         "is "
         "final.";
}

Environment::Environment(Task task, EnvironmentOptions options)
    : task_(std::move(task)), options_(options) {}

const std::string& Environment::reset() {
  visit_ = {};
  history_.clear();
  observations_.clear();
  showings_.assign(task_.facts.size(), {});
  steps_ = 0;
  failed_parse_ = 0;
  success_ = false;
  done_ = options_.max_steps <= 0;
  page_ = task_.site.page(Site::home_path(), visit_);
  return observe("Your task: " + task_.goal + "\n\n" + page_.text);
}

const std::string& Environment::step(std::string_view reply) {
  assert(!observations_.empty() && !done_);
  ++steps_;
  if (steps_ >= options_.max_steps) done_ = true;
  const auto action = parse_action(action_line(reply));
  if (!action) {
    ++failed_parse_;
    return refuse(action.error());
  }
  const std::string& text = action.value().text;
  switch (action.value().kind) {
    case ActionKind::kClick:
      return click(action.value().element);
    case ActionKind::kType:
      return type(action.value().element, text);
    case ActionKind::kSearch:
      return show(Site::search_path(text.substr(0, kMostTyped)), true);
    case ActionKind::kBack: {
      if (history_.empty()) return refuse("there is no page before this one");
      const std::string path = history_.back();
      history_.pop_back();
      return show(path, false);
    }
    case ActionKind::kAnswer:
      break;
  }
  const auto& expected = task_.outcome.answer;
  return finish(!expected.empty() && answers(text, expected), "The answer was received.");
}

std::optional<std::string> Environment::previous() const {
  if (history_.empty()) return std::nullopt;
  return history_.back();
}

const std::string& Environment::observe(std::string text) {
  const size_t index = observations_.size();
  for (size_t i = 0; i < task_.facts.size(); ++i) {
    const Fact& fact = task_.facts[i];
    if (fact.source.empty() && index > 0) continue;
    const size_t at = text.find(fact.phrase);
    if (at == std::string::npos) continue;
    const size_t begin = at + fact.phrase.rfind(fact.value);
    showings_[i].push_back({index, begin, begin + fact.value.size()});
  }
  observations_.push_back(std::move(text));
  return observations_.back();
}

const std::string& Environment::refuse(const std::string& what) {
  return observe("Error: " + what + ".");
}

const std::string& Environment::show(const std::string& path, bool remember) {
  if (remember) history_.push_back(page_.path);
  const auto parts = split_path(path);
  auto& opened = visit_.opened_records;
  if (parts[0] == "record" && std::find(opened.begin(), opened.end(), parts[1]) == opened.end()) {
    opened.push_back(parts[1]);
  }
  page_ = task_.site.page(path, visit_);
  return observe(page_.text);
}

const std::string& Environment::click(int32_t number) {
  const Element* element = page_.find(number);
  const std::string name = bracketed(static_cast<size_t>(number));
  if (element == nullptr) return refuse("no element " + name + ", " + elements_range(page_));
  if (element->kind == ElementKind::kField) return refuse(name + " is a field: use type" + name);
  if (element->kind == ElementKind::kButton) return press(*element);
  const std::string path = element->target;  // showing a page ends the element's life
  return show(path, true);
}

const std::string& Environment::press(const Element& button) {
  const std::string path = page_.path;
  if (button.target == "add") {
    const auto parts = split_path(path);
    visit_.cart.emplace_back(std::stoul(parts[1]), std::stoul(parts[3]));
    return show("/cart", true);
  }
  if (button.target == "empty") {
    visit_.cart.clear();
    return show(path, false);
  }
  if (button.target == "order") {
    if (visit_.cart.empty()) return refuse("the cart is empty, nothing can be ordered");
    return finish(order_is_right() && fields_are_right(path), "The order was placed.");
  }
  return finish(path == task_.outcome.form && fields_are_right(path), "The form was sent.");
}

const std::string& Environment::type(int32_t number, const std::string& text) {
  const Element* element = page_.find(number);
  const std::string name = bracketed(static_cast<size_t>(number));
  if (element == nullptr) return refuse("no element " + name + ", " + elements_range(page_));
  if (element->kind != ElementKind::kField) return refuse(name + " is no field: use click" + name);
  if (text.size() > kMostTyped) {
    return refuse("a text of " + std::to_string(text.size()) + " bytes for a field, at most " +
                  std::to_string(kMostTyped) + " are allowed");
  }
  const std::string path = page_.path;
  visit_.drafts[{path, element->label}] = text;
  return show(path, false);
}

const std::string& Environment::finish(bool success, const std::string& what) {
  success_ = success;
  done_ = true;
  return observe(what);
}

bool Environment::order_is_right() const {
  auto ordered = visit_.cart;
  auto expected = task_.outcome.order;
  std::sort(ordered.begin(), ordered.end());
  std::sort(expected.begin(), expected.end());
  return ordered == expected;
}

bool Environment::fields_are_right(const std::string& path) const {
  return std::all_of(
      task_.outcome.fields.begin(), task_.outcome.fields.end(), [&](const Field& field) {
        const auto draft = visit_.drafts.find({path, field.first});
        return draft != visit_.drafts.end() &&
               without_unit(normalised(draft->second)) == without_unit(normalised(field.second));
      });
}

}  // namespace kvasir::eval::agent
