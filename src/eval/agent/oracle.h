// A player that knows the right plan but only those facts that the memory still holds.
//
// It separates a cache's quality from a model's: what must survive is known to the character. A
// lost fact is read again where a page tells it, which costs steps; what only the first message
// told is guessed, wrongly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/agent/environment.h"
#include "eval/agent/player.h"

namespace kvasir::eval::agent {

/// What a cache still holds of the observations; a runner implements it.
struct Memory {
  virtual ~Memory() = default;
  /// The share in [0, 1] of the layers' slots of these characters' tokens that are live.
  virtual double held(size_t observation, size_t begin, size_t end) const = 0;
};

struct OracleOptions {
  double threshold = 0.5;   ///< a fact is known while held() of one of its showings reaches it
  int32_t max_lookups = 2;  ///< of one fact, before it is guessed
};

class OraclePlayer : public Player {
 public:
  /// Both must outlive the player; it plays from environment.reset() on.
  OraclePlayer(const Environment& environment, const Memory& memory, OracleOptions options = {});

  /// Reads no message: the environment tells where it is, the memory what it knows.
  Result<std::string> act(std::span<const Message> transcript) override;

  PlayerCounts counts() const override { return counts_; }

 private:
  bool knows(size_t fact) const;
  std::vector<std::optional<std::string>> recall(const PlanStep& step);
  bool starts_lookup(const PlanStep& step);
  std::optional<std::string> towards(const std::string& path) const;
  /// The next reply of a step, or nothing when it is done without one.
  std::optional<std::string> play(const PlanStep& step);
  std::string perform(const PlanStep& step);
  void next_step();

  const Environment& environment_;
  const Memory& memory_;
  OracleOptions options_;
  PlayerCounts counts_;
  size_t step_ = 0;
  bool counted_ = false;                 ///< the step's facts are in counts_
  std::optional<std::string> looks_up_;  ///< the page on which a lost fact stands
  std::optional<std::string> opens_;     ///< what the current kOpen step decided
  std::vector<int32_t> lookups_;         ///< by fact
};

}  // namespace kvasir::eval::agent
