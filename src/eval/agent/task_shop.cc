// Tasks in the shops.
#include <algorithm>
#include <limits>

#include "eval/agent/task_parts.h"
#include "eval/agent/words.h"

namespace kvasir::eval::agent {
namespace {

/// A shop, a category and those of its articles that share the property.
struct Shelf {
  size_t shop = 0;
  size_t category = 0;
  std::string value;
  std::vector<size_t> articles;
};

Shelf pick_shelf(const Site& site, Random& random, std::string Article::*property) {
  Shelf shelf;
  shelf.shop = random.below(kShops);
  shelf.category = random.below(kCategories);
  std::vector<size_t> all;
  for (const auto& article : site.articles) {
    if (article.category == shelf.category) all.push_back(article.id);
  }
  shelf.value = site.articles[random.pick(all)].*property;
  for (const size_t id : all) {
    if (site.articles[id].*property == shelf.value) shelf.articles.push_back(id);
  }
  return shelf;
}

std::string shelf_name(const Site& site, const Shelf& shelf) {
  return site.categories[shelf.category] + " at " + site.shops[shelf.shop];
}

/// Opens an article whose choice needs a fact of the goal; who lost it opens one of another kind.
void open_candidate(Task& task, const Shelf& shelf, size_t article, size_t fact) {
  const size_t first = shelf.category * kArticlesOfCategory;
  size_t other = article;
  while (std::count(shelf.articles.begin(), shelf.articles.end(), other) > 0) {
    other = first + (other + 1 - first) % kArticlesOfCategory;
  }
  open_by(task, {fact}, [=, shop = shelf.shop](Remembered values) {
    return Site::article_path(shop, values[0] ? article : other);
  });
}

void place_order(Task& task) { press(task, "/checkout", "Place the order"); }

}  // namespace

void make_cheapest(Task& task, Random& random) {
  Site& site = task.site;
  const Shelf shelf = pick_shelf(site, random, &Article::colour);
  const auto& ids = shelf.articles;
  const auto two = sample(random, ids.size(), 2);
  const std::string material = site.articles[ids[two[0]]].material;
  site.articles[ids[two[1]]].material = material;
  task.goal = "Buy one product: of all " + shelf_name(site, shelf) + " whose colour is " +
              shelf.value + " and whose material is " + material +
              ", the one with the lowest price. Put it into the cart and place the order.";
  const size_t colour_fact =
      add_goal_fact(task, "colour", "whose colour is " + shelf.value, shelf.value);
  std::vector<size_t> needs = {
      add_goal_fact(task, "material", "whose material is " + material, material)};
  std::vector<std::string> paths;
  for (const size_t id : ids) {
    paths.push_back(Site::article_path(shelf.shop, id));
    needs.push_back(add_line_fact(task, site.material_line(id), paths.back()));
    needs.push_back(add_line_fact(task, site.price_line(shelf.shop, id), paths.back()));
    open_candidate(task, shelf, id, colour_fact);
  }
  size_t best = two[0];
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto price = [&](size_t which) { return site.articles[ids[which]].price[shelf.shop]; };
    if (site.articles[ids[i]].material == material && price(i) < price(best)) best = i;
  }
  // Those that are remembered are compared; with nothing to go by, it is one of the others.
  const std::string wrong = paths[(best + 1) % paths.size()];
  open_by(task, needs, [paths, wrong](Remembered values) {
    std::pair<int64_t, std::string> least = {std::numeric_limits<int64_t>::max(), wrong};
    for (size_t i = 0; values[0] && i < paths.size(); ++i) {
      const auto& made_of = values[1 + 2 * i];
      const auto& price = values[2 + 2 * i];
      if (made_of != values[0] || !price) continue;
      least = std::min(least, {hundredths(*price), paths[i]});
    }
    return least.second;
  });
  press(task, "", "Add to cart");
  place_order(task);
  task.outcome.order = {{shelf.shop, ids[best]}};
}

void make_compare_shops(Task& task, Random& random) {
  Site& site = task.site;
  const Article& article = random.pick(site.articles);
  const auto shipping =
      std::find_if(topic_words().begin(), topic_words().end(),
                   [](const TopicWords& topic) { return topic.slug == "shipping"; });
  const auto topic = static_cast<size_t>(shipping - topic_words().begin());
  std::array<int32_t, kShops> total{};
  std::array<int32_t, kShops> fee{};
  do {
    for (size_t shop = 0; shop < kShops; ++shop) {
      fee[shop] = random.between(40, 900) * 5;
      total[shop] = article.price[shop] + fee[shop];
    }
  } while (total[0] == total[1]);
  task.goal = "Both shops sell the product " + article.name +
              ". Order one where it costs less in all: its price plus the shipping fee of that "
              "shop, which the help page Shipping tells. It is among the " +
              site.categories[article.category] + ".";
  const size_t name =
      add_goal_fact(task, "product", "sell the product " + article.name, article.name);
  std::vector<size_t> needs = {name};
  const size_t other = article.id ^ 1;
  for (size_t shop = 0; shop < kShops; ++shop) {
    const std::string path = Site::article_path(shop, article.id);
    open_by(task, {name}, [path, wrong = Site::article_path(shop, other)](Remembered values) {
      return values[0] ? path : wrong;
    });
    needs.push_back(add_line_fact(task, site.price_line(shop, article.id), path));
  }
  for (size_t shop = 0; shop < kShops; ++shop) {
    site.clauses.push_back({topic, "shipping fee of " + site.shops[shop], amount(fee[shop])});
    needs.push_back(add_clause_fact(task, site.clauses.back()));
  }
  open(task, Site::topic_path(topic));
  const size_t better = total[0] < total[1] ? 0 : 1;
  open_by(task, needs, [id = article.id, other, better](Remembered values) {
    const bool knows_all = std::all_of(values.begin() + 1, values.end(),
                                       [](const auto& value) { return value.has_value(); });
    size_t shop = 1 - better;  // a guess
    if (knows_all) {
      const auto sum = [&](size_t of) {
        return hundredths(*values[1 + of]) + hundredths(*values[3 + of]);
      };
      shop = sum(0) < sum(1) ? 0 : 1;
    }
    return Site::article_path(shop, values[0] ? id : other);
  });
  press(task, "", "Add to cart");
  place_order(task);
  task.outcome.order = {{better, article.id}};
}

void make_count(Task& task, Random& random) {
  const Site& site = task.site;
  const Shelf shelf = pick_shelf(site, random, &Article::brand);
  const int32_t years = site.articles[random.pick(shelf.articles)].warranty_years;
  const std::string wanted = std::to_string(years) + (years == 1 ? " year" : " years");
  task.goal = "Count products: how many of the " + shelf_name(site, shelf) + " of the brand " +
              shelf.value + " have a warranty of exactly " + wanted +
              "? Their pages tell. Answer with the number.";
  const size_t brand = add_goal_fact(task, "brand", "of the brand " + shelf.value, shelf.value);
  std::vector<size_t> needs = {
      add_goal_fact(task, "warranty", "a warranty of exactly " + wanted, wanted)};
  size_t matches = 0;
  for (const size_t id : shelf.articles) {
    open_candidate(task, shelf, id, brand);
    needs.push_back(
        add_line_fact(task, site.warranty_line(id), Site::article_path(shelf.shop, id)));
    if (site.articles[id].warranty_years == years) ++matches;
  }
  answer_by(task, needs, [](Remembered values) {
    if (!values[0]) return std::string(kUnknown);
    return std::to_string(std::count(values.begin() + 1, values.end(), values[0]));
  });
  task.outcome.answer = {std::to_string(matches)};
}

void make_sum(Task& task, Random& random) {
  const Site& site = task.site;
  const Shelf shelf = pick_shelf(site, random, &Article::colour);
  task.goal = "Add up numbers: how many pieces are in stock of all " + shelf_name(site, shelf) +
              " whose colour is " + shelf.value +
              "? The page of each product tells its own number. Answer with the sum.";
  const size_t colour =
      add_goal_fact(task, "colour", "whose colour is " + shelf.value, shelf.value);
  std::vector<size_t> needs;
  int64_t sum = 0;
  for (const size_t id : shelf.articles) {
    open_candidate(task, shelf, id, colour);
    needs.push_back(
        add_line_fact(task, site.stock_line(shelf.shop, id), Site::article_path(shelf.shop, id)));
    sum += site.articles[id].stock[shelf.shop];
  }
  answer_by(task, needs, [](Remembered values) {
    int64_t total = 0;
    for (const auto& value : values) total += value ? hundredths(*value) / 100 : 0;
    return std::to_string(total);
  });
  task.outcome.answer = {std::to_string(sum)};
}

void make_gift_order(Task& task, Random& random) {
  const Site& site = task.site;
  const auto two = sample(random, site.articles.size(), 2);
  const Article& first = site.articles[two[0]];
  const Article& second = site.articles[two[1]];
  const std::string coupon = make_code(random, 5);
  const std::string note = "for " + std::string(random.pick(first_names())) + ", staircase " +
                           std::to_string(random.between(2, 29));
  const auto place = [&](const Article& article, size_t shop) {
    return article.name + " (among the " + site.categories[article.category] + " at " +
           site.shops[shop] + ")";
  };
  task.goal = "Order two products together: first " + place(first, 0) + ", then " +
              place(second, 1) + ". At the checkout enter the coupon code " + coupon +
              " and the gift note \"" + note + "\".";
  const size_t name = add_goal_fact(task, "second product", "then " + second.name, second.name);
  open(task, Site::article_path(0, first.id));
  press(task, "", "Add to cart");
  open_by(task, {name}, [id = second.id](Remembered values) {
    return Site::article_path(1, values[0] ? id : id ^ 1);
  });
  press(task, "", "Add to cart");
  type_fact(task, "/checkout", "Coupon code",
            add_goal_fact(task, "coupon code", "the coupon code " + coupon, coupon));
  type_fact(task, "/checkout", "Gift note",
            add_goal_fact(task, "gift note", "the gift note \"" + note + "\"", note));
  place_order(task);
  task.outcome.order = {{0, first.id}, {1, second.id}};
  task.outcome.fields = {{"Coupon code", coupon}, {"Gift note", note}};
}

}  // namespace kvasir::eval::agent
