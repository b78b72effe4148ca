#include "eval/agent/action.h"

#include <algorithm>
#include <optional>

namespace kvasir::eval::agent {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kAllowed =
    "click[NUMBER], type[NUMBER][TEXT], search[TEXT], back or answer[TEXT]";
constexpr size_t kMostDigits = 6;
constexpr size_t kShownBytes = 60;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

Error refused(std::string_view line) {
  return Error{"cannot read '" + excerpt(line, kShownBytes) + "' as an action, expected one of " +
               std::string(kAllowed)};
}

/// The inside of "[...]" when all of `text` is one pair of brackets; brackets inside are kept.
std::optional<std::string_view> bracketed(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  return text.substr(1, text.size() - 2);
}

std::optional<int32_t> number(std::string_view digits) {
  digits = trimmed(digits);
  if (digits.empty() || digits.size() > kMostDigits) return std::nullopt;
  int32_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string excerpt(std::string_view text, size_t limit) {
  size_t kept = std::min(text.size(), limit);
  while (kept < text.size() && kept > 0 && (text[kept] & 0xC0) == 0x80) --kept;  // inside a letter
  std::string shown(text.substr(0, kept));
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  return kept < text.size() ? shown + "..." : shown;
}

std::string_view action_line(std::string_view reply) {
  constexpr std::string_view kThought = "</think>";
  if (const size_t at = reply.rfind(kThought); at != std::string_view::npos) {
    reply.remove_prefix(at + kThought.size());
  }
  std::string_view line = trimmed(reply);
  line = trimmed(line.substr(0, line.find('\n')));
  if (take_prefix(line, "Action:") || take_prefix(line, "action:")) line = trimmed(line);
  while (!line.empty() && line.front() == '`') line.remove_prefix(1);
  while (!line.empty() && line.back() == '`') line.remove_suffix(1);
  return trimmed(line);
}

Result<Action> parse_action(std::string_view line) {
  std::string_view rest = trimmed(line);
  if (rest.find('\n') != std::string_view::npos) return refused(line);
  Action action;
  if (rest == "back") return action;
  if (take_prefix(rest, "click")) {
    const auto inside = bracketed(rest);
    const auto element = inside ? number(*inside) : std::nullopt;
    if (!element) return refused(line);
    action.kind = ActionKind::kClick;
    action.element = *element;
    return action;
  }
  if (take_prefix(rest, "type")) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return refused(line);
    const auto first = bracketed(rest.substr(0, end + 1));
    const auto second = bracketed(rest.substr(end + 1));
    const auto element = first ? number(*first) : std::nullopt;
    if (!element || !second) return refused(line);
    action.kind = ActionKind::kType;
    action.element = *element;
    action.text = *second;
    return action;
  }
  if (take_prefix(rest, "search")) {
    action.kind = ActionKind::kSearch;
  } else if (take_prefix(rest, "answer")) {
    action.kind = ActionKind::kAnswer;
  } else {
    return refused(line);
  }
  const auto inside = bracketed(rest);
  if (!inside || trimmed(*inside).empty()) return refused(line);
  action.text = trimmed(*inside);
  return action;
}

std::string click(int32_t element) { return "click[" + std::to_string(element) + "]"; }

std::string type(int32_t element, std::string_view text) {
  return "type[" + std::to_string(element) + "][" + std::string(text) + "]";
}

std::string search(std::string_view text) { return "search[" + std::string(text) + "]"; }

std::string answer(std::string_view text) { return "answer[" + std::string(text) + "]"; }

}  // namespace kvasir::eval::agent
