// The one line with which a player acts: click[12], type[13][text], search[text], back,
// answer[text].
//
// Knows the grammar; knows nothing of pages. Any bytes may come in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvasir::eval::agent {

enum class ActionKind { kClick, kType, kSearch, kBack, kAnswer };

struct Action {
  ActionKind kind = ActionKind::kBack;
  int32_t element = 0;  ///< of kClick and kType
  std::string text;     ///< of kType, kSearch and kAnswer
};

/// The line of a model's reply that is meant as its action: the first that is not empty, after a
/// closing </think> if there is one, without "Action:" and backticks around it.
std::string_view action_line(std::string_view reply);

/// Reads one line. Fails with one line that quotes it and names what is allowed.
Result<Action> parse_action(std::string_view line);

std::string click(int32_t element);
std::string type(int32_t element, std::string_view text);
std::string search(std::string_view text);
std::string answer(std::string_view text);

/// At most `limit` bytes of a text from outside, control characters as '?', "..." if cut.
std::string excerpt(std::string_view text, size_t limit);

}  // namespace kvasir::eval::agent
