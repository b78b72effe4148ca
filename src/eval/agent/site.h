// The site: two shops that sell the same articles, help pages, forms and a registry, from a seed.
//
// Knows what there is and how each page reads; knows neither tasks nor who walks about. Values:
// a task adds its own forms and records to a site before anyone enters it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "eval/agent/page.h"

namespace kvasir::eval::agent {

constexpr size_t kShops = 2;
constexpr size_t kCategories = 4;
constexpr size_t kArticlesOfCategory = 12;

struct SiteOptions {
  uint64_t seed = 0;
  int32_t min_page_tokens = 1000;
  int32_t max_page_tokens = 3000;
  CountTokens count = count_words;
};

/// What both shops sell, each at a price of its own.
struct Article {
  size_t id = 0;
  size_t category = 0;
  std::string brand;
  std::string noun;
  std::string code;  ///< unique
  std::string name;  ///< "Brennock folding kettle KL-204"
  std::string colour;
  std::string material;
  int32_t warranty_years = 0;
  std::array<int32_t, kShops> price{};  ///< hundredths of a crown, no two alike in a category
  std::array<int32_t, kShops> stock{};
};

/// "The LABEL is VALUE." on the page of a topic.
struct Clause {
  size_t topic = 0;
  std::string label;
  std::string value;
};

struct Form {
  std::string slug;
  std::string title;
  std::vector<std::string> fields;
};

/// A page that only a search for its code opens; once open, the registry links it.
struct Record {
  std::string code;
  std::vector<std::string> lines;
};

using Field = std::pair<std::string, std::string>;  ///< label and value
/// One article in a cart: shop and article.
using CartLine = std::pair<size_t, size_t>;

/// What a visitor did so far and pages show.
struct Visit {
  std::vector<CartLine> cart;
  std::map<Field, std::string> drafts;  ///< by path and label: what was typed
  std::vector<std::string> opened_records;
};

/// What a site is made of; a task may add to it.
struct SiteContents {
  std::array<std::string, kShops> shops;
  std::array<std::string, kCategories> categories;
  std::vector<Article> articles;  ///< kArticlesOfCategory of each category
  std::vector<Clause> clauses;
  std::vector<Form> forms;
  std::vector<Record> records;
  std::vector<std::string> notices;  ///< on the home page
};

class Site : public SiteContents {
 public:
  /// Fails with one line if the lengths make no sense.
  static Result<Site> make(const SiteOptions& options);

  /// The page at `path`, which must be home_path(), a link's target or search_path(). Its length is
  /// the same whatever was done before, but for what the visit adds.
  Page page(const std::string& path, const Visit& visit) const;

  /// The page that always links `path`, or none for those that every page links.
  std::optional<std::string> parent(const std::string& path) const;

  static std::string home_path() { return "/home"; }
  static std::string shop_path(size_t shop);
  static std::string category_path(size_t shop, size_t category);
  static std::string article_path(size_t shop, size_t article);
  static std::string topic_path(size_t topic);
  static std::string form_path(const std::string& slug) { return "/form/" + slug; }
  static std::string record_path(const std::string& code) { return "/record/" + code; }
  static std::string search_path(const std::string& words) { return "/search/" + words; }

  /// "Price of KL-204 at Northgate Traders: 84.90 crowns", and the same of other lines of a
  /// product's page. The value comes after the colon.
  std::string price_line(size_t shop, size_t article) const;
  std::string stock_line(size_t shop, size_t article) const;
  std::string material_line(size_t article) const;
  std::string warranty_line(size_t article) const;
  static std::string clause_line(const Clause& clause);

  uint64_t seed() const { return options_.seed; }

 private:
  std::vector<Block> body(const std::string& path, const Visit& visit, std::string& title) const;
  std::vector<Block> shop_body(const std::vector<std::string>& parts, std::string& title) const;
  std::vector<Block> article_body(size_t shop, const Article& article) const;
  std::vector<Block> help_body(const std::string& topic, std::string& title) const;
  std::vector<Block> cart_body(const Visit& visit) const;
  std::vector<Block> form_body(const std::string& path, const Form& form, const Visit& visit) const;
  std::vector<Block> registry_body(const Visit& visit) const;
  std::vector<Block> search_body(const std::string& words) const;
  std::vector<Block> filler(Random& random, const std::string& path) const;

  SiteOptions options_;
};

/// "/shop/0/item/3" into "shop", "0", "item", "3".
std::vector<std::string> split_path(const std::string& path);

/// Lower case, spaces at the ends cut and runs of spaces made one: how entries are compared.
std::string normalised(std::string_view text);

}  // namespace kvasir::eval::agent
