#include "eval/agent/oracle.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "eval/agent/episode.h"

namespace kvasir::eval::agent {
namespace {

/// Holds the last `window` observations, and the first as well if `keeps_goal`.
struct WindowMemory : Memory {
  WindowMemory(const Environment& visited, size_t window, bool keeps_goal)
      : environment(visited), observations(window), goal(keeps_goal) {}
  double held(size_t observation, size_t /*begin*/, size_t /*end*/) const override {
    if (goal && observation == 0) return 1;
    return observation + observations >= environment.observations().size() ? 1 : 0;
  }
  const Environment& environment;
  size_t observations;
  bool goal;
};

/// Holds each span by chance, the same whenever asked.
struct PartialMemory : Memory {
  PartialMemory(uint64_t made_from, double kept) : seed(made_from), share(kept) {}
  double held(size_t observation, size_t begin, size_t end) const override {
    const std::string name = std::to_string(observation) + " " + std::to_string(begin);
    const auto draw = seed_of(seed, name + " " + std::to_string(end)) >> 11;
    return static_cast<double>(draw) < share * 9007199254740992.0 ? 1 : 0;
  }
  uint64_t seed;
  double share;
};

struct Totals {
  double episodes = 0;
  double successes = 0;
  double turns = 0;
  double needed = 0;
  double lost = 0;
};

EpisodeResult play(Environment& environment, const Memory& memory) {
  OraclePlayer player(environment, memory);
  auto result = run_episode(environment, player, nullptr);
  EXPECT_TRUE(result) << result.error();
  return std::move(result.value());
}

void add(Totals& totals, const EpisodeResult& result) {
  totals.episodes += 1;
  totals.successes += result.success ? 1 : 0;
  totals.turns += result.turns;
  totals.needed += result.facts_needed;
  totals.lost += result.facts_lost;
}

void show(const std::string& name, const Totals& totals) {
  std::printf("%-24s success %5.1f %%, turns %5.2f, facts needed %5.2f, lost %5.2f\n", name.c_str(),
              100 * totals.successes / totals.episodes, totals.turns / totals.episodes,
              totals.needed / totals.episodes, totals.lost / totals.episodes);
}

TEST(Oracle, WithAllInMemorySolvesEveryTask) {
  for (const auto& kind : task_kinds()) {
    Totals totals;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Environment environment(make_task(kind.name, seed).value());
      const auto result = play(environment, PartialMemory(0, 1));
      EXPECT_TRUE(result.success) << kind.name << " " << seed;
      EXPECT_EQ(result.failed_parse, 0);
      EXPECT_EQ(result.facts_lost, 0);
      EXPECT_EQ(result.lookups, 0);
      EXPECT_GE(result.facts_needed, 3) << kind.name << " " << seed;
      EXPECT_LE(result.turns, 22) << "leaves steps for looking up: " << kind.name << " " << seed;
      add(totals, result);
      for (size_t i = 0; i < environment.task().facts.size(); ++i) {
        const Fact& fact = environment.task().facts[i];
        ASSERT_FALSE(environment.showings(i).empty()) << fact.name;
        for (const auto& showing : environment.showings(i)) {
          EXPECT_EQ(environment.observations()[showing.observation].substr(
                        showing.begin, showing.end - showing.begin),
                    fact.value);
        }
      }
    }
    show(std::string(kind.name), totals);
  }
}

TEST(Oracle, WithTheLastPageAloneFailsOrTakesLonger) {
  double worse = 0;
  double episodes = 0;
  for (const auto& kind : task_kinds()) {
    Totals totals;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      Environment environment(make_task(kind.name, seed).value());
      const auto full = play(environment, PartialMemory(0, 1));
      const auto last = play(environment, WindowMemory(environment, 1, false));
      add(totals, last);
      episodes += 1;
      worse += !last.success || last.turns > full.turns ? 1 : 0;
    }
    show(std::string(kind.name) + ", last page", totals);
  }
  EXPECT_GE(worse, 0.9 * episodes);
}

// More memory is never worse on average, and a little less costs a little.
void expect_monotone(const std::vector<Totals>& by_memory) {
  for (size_t i = 1; i < by_memory.size(); ++i) {
    EXPECT_GE(by_memory[i].successes, by_memory[i - 1].successes) << i;
    EXPECT_LE(by_memory[i].lost, by_memory[i - 1].lost) << i;
  }
  EXPECT_EQ(by_memory.back().successes, by_memory.back().episodes);
  EXPECT_LT(by_memory.front().successes, 0.3 * by_memory.front().episodes);
}

TEST(Oracle, DegradesGracefullyWithAWindow) {
  std::vector<Totals> by_memory;
  for (const size_t window : {1, 2, 4, 8, 31}) {
    Totals totals;
    for (const auto& kind : task_kinds()) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        Environment environment(make_task(kind.name, seed).value());
        add(totals, play(environment, WindowMemory(environment, window, true)));
      }
    }
    show("goal and last " + std::to_string(window), totals);
    by_memory.push_back(totals);
  }
  expect_monotone(by_memory);
  EXPECT_GT(by_memory[2].turns / by_memory[2].episodes,
            by_memory.back().turns / by_memory.back().episodes)
      << "looking up costs turns";
}

TEST(Oracle, DegradesGracefullyWithAShare) {
  std::vector<Totals> by_memory;
  for (const double share : {0.0, 0.5, 0.75, 0.9, 1.0}) {
    Totals totals;
    for (const auto& kind : task_kinds()) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        Environment environment(make_task(kind.name, seed).value());
        add(totals, play(environment, PartialMemory(seed, share)));
      }
    }
    show("share " + std::to_string(share).substr(0, 4), totals);
    by_memory.push_back(totals);
  }
  expect_monotone(by_memory);
}

TEST(Oracle, ThresholdDecidesWhatCounts) {
  struct Half : Memory {
    double held(size_t, size_t, size_t) const override { return 0.5; }
  } memory;
  Environment environment(make_task("form", 1).value());
  for (const double threshold : {0.5, 0.51}) {
    OracleOptions options;
    options.threshold = threshold;
    OraclePlayer player(environment, memory, options);
    const auto result = run_episode(environment, player, nullptr);
    EXPECT_EQ(result.value().success, threshold == 0.5);
    EXPECT_EQ(player.counts().facts_lost > 0, threshold > 0.5);
  }
}

TEST(Oracle, ReadsAgainWhatAPageTells) {
  // Forgets the first showing of every fact but those of the goal.
  struct FirstLost : Memory {
    explicit FirstLost(const Environment& visited) : environment(visited) {}
    double held(size_t observation, size_t begin, size_t end) const override {
      for (size_t i = 0; i < environment.task().facts.size(); ++i) {
        const auto& showings = environment.showings(i);
        if (showings.empty() || environment.task().facts[i].source.empty()) continue;
        const Showing& first = showings.front();
        if (first.observation == observation && first.begin == begin && first.end == end) return 0;
      }
      return 1;
    }
    const Environment& environment;
  };
  OracleOptions options;
  for (const int32_t lookups : {2, 0}) {
    Environment environment(make_task("recall", 3).value());
    const FirstLost memory(environment);
    options.max_lookups = lookups;
    OraclePlayer player(environment, memory, options);
    const auto result = run_episode(environment, player, nullptr);
    EXPECT_EQ(result.value().success, lookups > 0);
    EXPECT_EQ(result.value().facts_lost, 4);
    EXPECT_EQ(result.value().lookups, lookups > 0 ? 4 : 0);
    EXPECT_EQ(result.value().turns > 13, lookups > 0);
  }
}

}  // namespace
}  // namespace kvasir::eval::agent
