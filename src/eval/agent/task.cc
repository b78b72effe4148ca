#include "eval/agent/task.h"

#include <algorithm>
#include <array>
#include <utility>

#include "eval/agent/task_parts.h"

namespace kvasir::eval::agent {
namespace {

constexpr std::array<TaskKind, 10> kKinds = {{
    {"cheapest", "buy the cheapest product of a colour and a material", make_cheapest},
    {"compare_shops", "order where price and shipping fee are lower", make_compare_shops},
    {"count", "count the products of a brand with a given warranty", make_count},
    {"sum", "add up the pieces in stock over products", make_sum},
    {"gift_order", "order two products; a coupon and a note apply at the end", make_gift_order},
    {"recall", "an order number of the first page goes into a form much later", make_recall},
    {"form", "fill a form with facts from several help pages", make_form},
    {"chain", "follow records that name each other, collect a word of each", make_chain},
    {"information", "answer a question about three pages", make_information},
    {"registration", "fill a form with what the first message and two pages tell",
     make_registration},
}};

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || byte >= 0x80;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : normalised(text) + ' ') {
    if (is_word(c)) {
      word += c;
      continue;
    }
    while (!word.empty() && (word.back() == '.' || word.back() == '-')) word.pop_back();
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  }
  return words;
}

bool has_digit(const std::string& word) {
  return std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::span<const TaskKind> task_kinds() { return kKinds; }

Result<Task> make_task(std::string_view kind, uint64_t seed, SiteOptions options) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const TaskKind& known) { return known.name == kind; });
  if (found == kKinds.end()) {
    std::string names;
    for (const auto& known : kKinds) {
      names += names.empty() ? "" : ", ";
      names += known.name;
    }
    return Error{"no agent task '" + std::string(kind) + "', known are: " + names};
  }
  options.seed = seed_of(seed, kind);
  auto site = Site::make(options);
  if (!site) return Error{site.error()};
  Task task;
  task.kind = found->name;
  task.seed = seed;
  task.site = std::move(site.value());
  Random random(seed_of(options.seed, "task"));
  found->make(task, random);
  return task;
}

std::string without_unit(const std::string& value) {
  for (const std::string_view unit : {" days", " crowns"}) {
    const size_t at = value.rfind(unit);
    if (at != std::string::npos && at + unit.size() == value.size()) return value.substr(0, at);
  }
  return value;
}

bool answers(std::string_view text, std::span<const std::string> parts) {
  const auto said = words_of(text);
  std::vector<std::string> expected;
  for (const auto& part : parts) {
    const auto words = words_of(part);
    const auto at = std::search(said.begin(), said.end(), words.begin(), words.end());
    if (at == said.end()) return false;
    expected.insert(expected.end(), words.begin(), words.end());
  }
  // A list of everything seen is no answer.
  if (said.size() > 3 * expected.size() + 8) return false;
  return std::all_of(said.begin(), said.end(), [&](const std::string& word) {
    return !has_digit(word) || std::find(expected.begin(), expected.end(), word) != expected.end();
  });
}

}  // namespace kvasir::eval::agent
