#include "eval/agent/episode.h"

#include <gtest/gtest.h>

#include "eval/agent/oracle.h"

namespace kvasir::eval::agent {
namespace {

struct AllHeld : Memory {
  double held(size_t, size_t, size_t) const override { return 1; }
};

/// Says the same whatever happens.
struct Parrot : Player {
  explicit Parrot(std::string said) : reply(std::move(said)) {}
  Result<std::string> act(std::span<const Message> transcript) override {
    seen = transcript.size();
    return reply;
  }
  std::string reply;
  size_t seen = 0;
};

TEST(Task, UnknownKindIsNamed) {
  const auto task = make_task("flying", 1);
  ASSERT_FALSE(task);
  EXPECT_NE(task.error().find("'flying', known are: cheapest, compare_shops"), std::string::npos)
      << task.error();
}

TEST(Task, FollowsFromItsSeed) {
  EXPECT_GE(task_kinds().size(), 8U);
  for (const auto& kind : task_kinds()) {
    const auto goal = [&](uint64_t seed) { return make_task(kind.name, seed).value().goal; };
    EXPECT_EQ(goal(1), goal(1));
    EXPECT_NE(goal(1) + goal(2), goal(3) + goal(4)) << kind.name;
  }
}

TEST(Environment, CountsGarbledRepliesAndStops) {
  Environment environment(make_task("sum", 1).value(), {5});
  Parrot parrot("I would click on the lamp");
  const auto result = run_episode(environment, parrot, nullptr);
  ASSERT_TRUE(result);
  EXPECT_EQ(result.value().turns, 5);
  EXPECT_EQ(result.value().failed_parse, 5);
  EXPECT_FALSE(result.value().success);
  EXPECT_EQ(parrot.seen, 10U) << "system, 5 observations, 4 replies";
  EXPECT_EQ(environment.observations()[1].find("Error: cannot read 'I would"), 0U);
  EXPECT_EQ(environment.observations()[1].find('\n'), std::string::npos);
}

TEST(Environment, RefusesWhatIsNotThere) {
  Environment environment(make_task("form", 1).value());
  environment.reset();
  EXPECT_EQ(environment.step("click[900]").find("Error: no element [900], the page has [1] to ["),
            0U);
  EXPECT_EQ(environment.step("type[1][x]"), "Error: [1] is no field: use click[1].");
  EXPECT_EQ(environment.step("back"), "Error: there is no page before this one.");
  EXPECT_EQ(environment.failed_parse(), 0);
  EXPECT_EQ(environment.steps(), 3);
  environment.step("click[5]");
  ASSERT_EQ(environment.page().path, "/cart");
  ASSERT_NE(environment.page().link_to("/checkout"), nullptr);
  environment.step("click[" + std::to_string(environment.page().link_to("/checkout")->number) +
                   "]");
  const int32_t field = environment.page().find(ElementKind::kField, "Coupon code")->number;
  EXPECT_EQ(environment.step(click(field))
                .find("Error: " + bracketed(static_cast<size_t>(field)) + " is a field"),
            0U);
  EXPECT_NE(environment.step(type(field, "AB-1")).find("field Coupon code: AB-1\n"),
            std::string::npos);
  EXPECT_NE(environment.step(type(field, std::string(300, 'x'))).find("at most 200"),
            std::string::npos);
  const int32_t order = environment.page().find(ElementKind::kButton, "Place the order")->number;
  EXPECT_EQ(environment.step(click(order)).find("Error: the cart is empty"), 0U);
  EXPECT_FALSE(environment.done());
}

TEST(Environment, WrongStateIsNoSuccess) {
  for (const auto& kind : task_kinds()) {
    Environment environment(make_task(kind.name, 5).value());
    environment.reset();
    environment.step("answer[7 of 13]");
    EXPECT_TRUE(environment.done());
    EXPECT_FALSE(environment.success()) << kind.name;
  }
  // The right plan with one field emptied, one article too many.
  for (const std::string kind : {"form", "gift_order", "cheapest"}) {
    Environment environment(make_task(kind, 5).value());
    const AllHeld memory;
    OraclePlayer player(environment, memory);
    environment.reset();
    bool spoilt = false;
    while (!environment.done()) {
      const std::string reply = player.act({}).value();
      const auto action = parse_action(reply).value();
      environment.step(reply);
      if (environment.done() || spoilt) continue;
      if (kind == "cheapest" && environment.page().path == "/cart") {
        environment.step("back");
        const Element* add = environment.page().find(ElementKind::kButton, "Add to cart");
        environment.step(click(add->number));
        spoilt = true;
      } else if (kind != "cheapest" && action.kind == ActionKind::kType) {
        environment.step(type(action.element, ""));
        spoilt = true;
      }
    }
    EXPECT_TRUE(spoilt);
    EXPECT_FALSE(environment.success()) << kind;
  }
}

TEST(Environment, IsDeterministic) {
  const AllHeld memory;
  const auto transcript = [&] {
    Environment environment(make_task("gift_order", 9).value());
    OraclePlayer player(environment, memory);
    std::string all;
    const auto result = run_episode(environment, player, nullptr);
    for (const auto& message : result.value().transcript) all += message.text;
    return all;
  };
  EXPECT_EQ(transcript(), transcript());
}

TEST(Episode, ShowsEachMessageOnceAndInOrder) {
  Environment environment(make_task("information", 2).value());
  const AllHeld memory;
  OraclePlayer player(environment, memory);
  std::vector<Message> seen;
  const auto result = run_episode(environment, player, [&](const Message& message) {
    seen.push_back(message);
    return Result<void>();
  });
  ASSERT_TRUE(result);
  EXPECT_TRUE(result.value().success);
  ASSERT_EQ(seen.size(), result.value().transcript.size());
  ASSERT_EQ(seen.size(), 1 + 2 * static_cast<size_t>(result.value().turns));
  EXPECT_EQ(seen[0].role, Role::kSystem);
  EXPECT_NE(seen[0].text.find("type[NUMBER][TEXT]"), std::string::npos);
  for (size_t i = 1; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].role, i % 2 == 1 ? Role::kUser : Role::kAssistant);
    if (i % 2 == 1) {
      EXPECT_EQ(seen[i].text, environment.observations()[i / 2]);
    }
  }
  EXPECT_EQ(seen[1].text.find("Your task: " + environment.task().goal), 0U);
}

TEST(Episode, ErrorsOfTheRunnerEndIt) {
  Environment environment(make_task("form", 2).value());
  Parrot parrot("back");
  int calls = 0;
  const auto result = run_episode(environment, parrot, [&](const Message&) -> Result<void> {
    if (++calls == 3) return Error{"the cache is full"};
    return {};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), "the cache is full");
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace kvasir::eval::agent
