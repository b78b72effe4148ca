// Who plays: given all messages so far, the next reply.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvasir::eval::agent {

enum class Role { kSystem, kUser, kAssistant };

/// "system", "user" or "assistant".
constexpr std::string_view role_name(Role role) {
  return role == Role::kSystem ? "system" : role == Role::kUser ? "user" : "assistant";
}

struct Message {
  Role role = Role::kUser;
  std::string text;
};

/// What a player knows of its own memory; zero for those who cannot tell.
struct PlayerCounts {
  int32_t facts_needed = 0;  ///< each time a step needed a fact
  int32_t facts_lost = 0;    ///< of these, how often it was gone when first asked for
  int32_t lookups = 0;       ///< how often a page was opened again to read it
};

class Player {
 public:
  virtual ~Player() = default;

  /// The reply to `transcript`: the system message, then observations (user) and replies
  /// (assistant) in turns, ending with an observation. Fails with one line, which ends the episode.
  virtual Result<std::string> act(std::span<const Message> transcript) = 0;

  virtual PlayerCounts counts() const { return {}; }
};

}  // namespace kvasir::eval::agent
