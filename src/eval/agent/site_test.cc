#include "eval/agent/site.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "base/fnv1a.h"
#include "eval/agent/task.h"

namespace kvasir::eval::agent {
namespace {

Site site_of(uint64_t seed) {
  SiteOptions options;
  options.seed = seed;
  return Site::make(options).value();
}

std::vector<Page> all_pages(const Site& site) {
  std::vector<Page> pages;
  std::set<std::string> known = {Site::home_path()};
  std::deque<std::string> open = {Site::home_path(), Site::search_path("kettle"), "/checkout"};
  for (; !open.empty(); open.pop_front()) {
    pages.push_back(site.page(open.front(), {}));
    for (const auto& element : pages.back().elements) {
      if (element.kind != ElementKind::kLink) continue;
      if (known.insert(element.target).second) open.push_back(element.target);
    }
  }
  return pages;
}

TEST(Site, PagesHaveOneToThreeThousandTokens) {
  size_t pages = 0;
  size_t inside = 0;
  int32_t least = 1 << 30;
  int32_t most = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (const auto& page : all_pages(site_of(seed))) {
      const int32_t tokens = count_words(page.text);
      ++pages;
      if (tokens >= 1000 && tokens <= 3000) ++inside;
      least = std::min(least, tokens);
      most = std::max(most, tokens);
    }
  }
  EXPECT_GT(pages, 400U);
  EXPECT_GE(static_cast<double>(inside), 0.95 * static_cast<double>(pages));
  EXPECT_LT(least, 1300) << "lengths differ";
  EXPECT_GT(most, 2000) << "lengths differ";
  RecordProperty("pages", static_cast<int>(pages));
  RecordProperty("inside", static_cast<int>(inside));
  RecordProperty("least", least);
  RecordProperty("most", most);
}

TEST(Site, LengthFollowsTheCounterAndTheLimits) {
  SiteOptions options;
  options.count = [](std::string_view text) { return static_cast<int32_t>(text.size() / 4); };
  const Site site = Site::make(options).value();
  for (const auto& path :
       {Site::home_path(), Site::article_path(1, 5), Site::category_path(0, 2)}) {
    const auto tokens = site.page(path, {}).text.size() / 4;
    EXPECT_GE(tokens, 1000U);
    EXPECT_LE(tokens, 3000U);
  }
  options.max_page_tokens = 1500;
  const auto refused = Site::make(options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("1000 to 1500"), std::string::npos) << refused.error();
}

TEST(Site, EveryPageLinksItsChildren) {
  const Site site = site_of(7);
  for (const auto& page : all_pages(site)) {
    const auto parent = site.parent(page.path);
    if (!parent || page.path == "/checkout") continue;
    EXPECT_NE(site.page(*parent, {}).link_to(page.path), nullptr) << page.path;
  }
}

TEST(Site, ElementsAreNumberedAsTheTextSays) {
  const Page page = site_of(1).page(Site::article_path(0, 3), {});
  ASSERT_GE(page.elements.size(), 6U);
  size_t at = 0;
  for (size_t i = 0; i < page.elements.size(); ++i) {
    EXPECT_EQ(page.elements[i].number, static_cast<int32_t>(i) + 1);
    const bool button = page.elements[i].kind == ElementKind::kButton;
    const std::string line =
        bracketed(i + 1) + (button ? " button: " : " link: ") + page.elements[i].label + "\n";
    const size_t found = page.text.find(line, at);
    ASSERT_NE(found, std::string::npos) << line;
    at = found;
  }
  EXPECT_NE(page.find(ElementKind::kButton, "Add to cart"), nullptr);
  EXPECT_EQ(page.find(0), nullptr);
  EXPECT_EQ(page.find(static_cast<int32_t>(page.elements.size()) + 1), nullptr);
}

TEST(Site, AnySearchGivesAPage) {
  const Site site = site_of(2);
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    std::string words = i % 2 == 0 ? "x/item/" : "";
    for (size_t size = random.below(20); size > 0; --size) {
      words += static_cast<char>(random.below(256));
    }
    EXPECT_GE(count_words(site.page(Site::search_path(words), {}).text), 900);
  }
  const auto& article = site.articles[5];
  const Page found = site.page(Site::search_path(article.code), {});
  EXPECT_NE(found.link_to(Site::article_path(1, article.id)), nullptr);
}

// FNV-1a over all pages: a change of any word of the site changes it.
TEST(Site, TextIsTheSameOnEveryMachine) {
  uint64_t hash = kFnv1aStart;
  for (const auto& page : all_pages(site_of(42))) hash = fnv1a(page.text, hash);
  EXPECT_EQ(hash, 10030643077313750265ULL);
  const auto home = [](uint64_t seed) { return site_of(seed).page(Site::home_path(), {}).text; };
  EXPECT_EQ(home(42), home(42));
  EXPECT_NE(home(42), home(43));
}

TEST(Answers, HoldEveryPartAndNoOtherNumber) {
  const std::vector<std::string> parts = {"21", "Kelso"};
  EXPECT_TRUE(answers("21, Kelso", parts));
  EXPECT_TRUE(answers("21 days and KELSO.", parts));
  EXPECT_FALSE(answers("21", parts));
  EXPECT_FALSE(answers("210, Kelso", parts));
  EXPECT_FALSE(answers("21 or 22, Kelso", parts));
  EXPECT_FALSE(answers("21 kelso a b c d e f g h i j k l m n o p", parts)) << "a list of all";
  EXPECT_EQ(without_unit("21 days"), "21");
  EXPECT_EQ(without_unit("4.90 crowns"), "4.90");
  EXPECT_EQ(without_unit("days of Kelso"), "days of Kelso");
  EXPECT_TRUE(answers("4.90 crowns", std::vector<std::string>{"4.90"}));
  EXPECT_FALSE(answers("14.90 crowns", std::vector<std::string>{"4.90"}));
}

}  // namespace
}  // namespace kvasir::eval::agent
