#include "eval/agent/episode.h"

#include <utility>

namespace kvasir::eval::agent {

Result<EpisodeResult> run_episode(Environment& environment, Player& player,
                                  const OnMessage& on_message) {
  EpisodeResult result;
  const auto say = [&](Role role, std::string text) -> Result<void> {
    result.transcript.push_back({role, std::move(text)});
    return on_message ? on_message(result.transcript.back()) : Result<void>();
  };
  auto said = say(Role::kSystem, std::string(action_rules()));
  if (said) said = say(Role::kUser, environment.reset());
  while (said && !environment.done()) {
    auto reply = player.act(result.transcript);
    if (!reply) return Error{reply.error()};
    said = say(Role::kAssistant, reply.value());
    if (!said) break;
    const std::string& observation = environment.step(reply.value());
    if (!environment.done()) said = say(Role::kUser, observation);
  }
  if (!said) return Error{said.error()};
  const PlayerCounts counts = player.counts();
  result.success = environment.success();
  result.turns = environment.steps();
  result.failed_parse = environment.failed_parse();
  result.facts_needed = counts.facts_needed;
  result.facts_lost = counts.facts_lost;
  result.lookups = counts.lookups;
  return result;
}

}  // namespace kvasir::eval::agent
