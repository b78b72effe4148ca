#include "eval/agent/site.h"

#include <algorithm>
#include <set>

#include "eval/agent/words.h"

namespace kvasir::eval::agent {
namespace {

// Below this a page's own content may be longer than its limit.
constexpr int32_t kLeastPageTokens = 600;
constexpr int32_t kMostPageTokens = 100'000;

Article make_article(size_t id, Random& random, const CategoryWords& words,
                     std::set<int32_t>& prices) {
  Article article;
  article.id = id;
  article.category = id / kArticlesOfCategory;
  // Colours and brands take turns, so that each has its share of every category.
  article.brand = brands()[id / colours().size() % 3 + article.category % 2 * 3];
  article.colour = colours()[id % colours().size()];
  article.noun = random.pick(words.nouns);
  article.material = random.pick(words.materials);
  article.warranty_years = random.between(1, 4);
  // A number of its own for each article keeps the codes apart.
  article.code = make_code(random, 0) + std::to_string(100 + id * 16 + random.below(16));
  article.name = article.brand + " " + std::string(random.pick(adjectives())) + " " + article.noun +
                 " " + article.code;
  for (size_t shop = 0; shop < kShops; ++shop) {
    do {
      article.price[shop] = random.between(300, 1900) * 5;
    } while (!prices.insert(article.price[shop]).second);
    article.stock[shop] = random.between(3, 60);
  }
  return article;
}

}  // namespace

Result<Site> Site::make(const SiteOptions& options) {
  if (options.min_page_tokens < kLeastPageTokens || options.max_page_tokens > kMostPageTokens ||
      options.min_page_tokens * 2 > options.max_page_tokens) {
    return Error{"page lengths " + std::to_string(options.min_page_tokens) + " to " +
                 std::to_string(options.max_page_tokens) + " tokens: allowed are " +
                 std::to_string(kLeastPageTokens) + " to " + std::to_string(kMostPageTokens) +
                 ", the second at least twice the first"};
  }
  if (!options.count) return Error{"no token counter was given"};
  Site site;
  site.options_ = options;
  Random random(seed_of(options.seed, "site"));
  std::vector<std::string_view> names(shop_names().begin(), shop_names().end());
  random.shuffle(names);
  for (size_t shop = 0; shop < kShops; ++shop) site.shops[shop] = names[shop];
  std::vector<size_t> order(category_words().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  random.shuffle(order);
  for (size_t category = 0; category < kCategories; ++category) {
    const CategoryWords& words = category_words()[order[category]];
    site.categories[category] = words.name;
    std::set<int32_t> prices;
    for (size_t i = 0; i < kArticlesOfCategory; ++i) {
      site.articles.push_back(make_article(site.articles.size(), random, words, prices));
    }
  }
  for (size_t topic = 0; topic < topic_words().size(); ++topic) {
    for (const auto& clause : topic_words()[topic].clauses) {
      site.clauses.push_back({topic, std::string(clause.label), make_value(clause.kind, random)});
    }
  }
  return site;
}

std::string Site::shop_path(size_t shop) { return "/shop/" + std::to_string(shop); }

std::string Site::category_path(size_t shop, size_t category) {
  return shop_path(shop) + "/category/" + std::to_string(category);
}

std::string Site::article_path(size_t shop, size_t article) {
  return shop_path(shop) + "/item/" + std::to_string(article);
}

std::string Site::topic_path(size_t topic) {
  return "/help/" + std::string(topic_words()[topic].slug);
}

std::string Site::price_line(size_t shop, size_t article) const {
  return "Price of " + articles[article].code + " at " + shops[shop] + ": " +
         amount(articles[article].price[shop]);
}

std::string Site::stock_line(size_t shop, size_t article) const {
  return "Pieces of " + articles[article].code + " in stock at " + shops[shop] + ": " +
         std::to_string(articles[article].stock[shop]);
}

std::string Site::material_line(size_t article) const {
  return "Material of " + articles[article].code + ": " + articles[article].material;
}

std::string Site::warranty_line(size_t article) const {
  const int32_t years = articles[article].warranty_years;
  return "Warranty of " + articles[article].code + ": " + std::to_string(years) +
         (years == 1 ? " year" : " years");
}

std::string Site::clause_line(const Clause& clause) {
  return "The " + clause.label + " is " + clause.value + ".";
}

std::optional<std::string> Site::parent(const std::string& path) const {
  const auto parts = split_path(path);
  if (parts.size() == 4 && parts[2] == "category") return "/shop/" + parts[1];
  if (parts.size() == 4 && parts[2] == "item") {
    const size_t category = std::stoul(parts[3]) / kArticlesOfCategory;
    return category_path(std::stoul(parts[1]), category);
  }
  if (parts[0] == "checkout") return "/cart";
  if (parts[0] == "record") return "/registry";
  if (parts[0] == "form" || parts[0] == "registry" || (parts[0] == "help" && parts.size() == 2)) {
    return "/help";
  }
  return std::nullopt;
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  size_t at = 1;
  while (at <= path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string normalised(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (space) {
      if (!result.empty() && result.back() != ' ') result += ' ';
    } else {
      result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace kvasir::eval::agent
