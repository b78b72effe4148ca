// One task from the first page to the last: an environment, a player and the messages between them.
//
// Knows the order of messages; knows no model and no cache. A runner that keeps a cache feeds it
// from on_message, which sees each message once, before the player must reply to it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/agent/environment.h"
#include "eval/agent/player.h"

namespace kvasir::eval::agent {

struct EpisodeResult {
  bool success = false;
  int32_t turns = 0;
  int32_t failed_parse = 0;
  int32_t facts_needed = 0;  ///< by the player's own count
  int32_t facts_lost = 0;
  int32_t lookups = 0;
  std::vector<Message> transcript;  ///< all messages; observation i is the i-th of the user's
};

/// Called for each message in order: the system's, then observations and replies in turns. The
/// observation after the last reply is not sent, since nobody reads it. An error ends the episode.
using OnMessage = std::function<Result<void>(const Message& message)>;

/// Plays from reset() until the environment is done. Fails with one line if the player or
/// on_message does. on_message may be null.
Result<EpisodeResult> run_episode(Environment& environment, Player& player,
                                  const OnMessage& on_message);

}  // namespace kvasir::eval::agent
