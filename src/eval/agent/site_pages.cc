// How the pages of the site read.
#include <algorithm>

#include "eval/agent/site.h"
#include "eval/agent/words.h"

namespace kvasir::eval::agent {
namespace {

Block navigation(const Site& site, const std::string& title) {
  Block block;
  block.text("# " + title).link("Home", Site::home_path());
  for (size_t shop = 0; shop < kShops; ++shop) block.link(site.shops[shop], Site::shop_path(shop));
  block.link("Help", "/help").link("Cart", "/cart");
  return block;
}

Block paragraph(std::string text) {
  Block block;
  block.text(std::move(text));
  return block;
}

bool has_words(const std::string& text, const std::string& words) {
  return !words.empty() && normalised(text).find(words) != std::string::npos;
}

}  // namespace

Page Site::page(const std::string& path, const Visit& visit) const {
  std::string title;
  auto blocks = body(path, visit, title);
  Random random(seed_of(options_.seed, "length of " + path));
  // A block of filling may go over by its own length, and two words a page are typed by visitors.
  const int32_t span = options_.max_page_tokens - options_.min_page_tokens;
  const int32_t low = options_.min_page_tokens + span / 40;
  const int32_t high = options_.max_page_tokens - span * 3 / 10;
  Filling filling;
  filling.make = [this, &path](Random& generator) { return filler(generator, path); };
  filling.count = options_.count;
  filling.target_tokens = random.between(low, high);
  filling.seed = seed_of(options_.seed, path);
  std::vector<Block> head = {navigation(*this, title)};
  return lay_out(path, title, std::move(head), std::move(blocks), filling);
}

std::vector<Block> Site::body(const std::string& path, const Visit& visit,
                              std::string& title) const {
  const auto parts = split_path(path);
  if (parts[0] == "shop") return shop_body(parts, title);
  if (parts[0] == "help") return help_body(parts.size() > 1 ? parts[1] : "", title);
  if (parts[0] == "cart") {
    title = "Your cart";
    return cart_body(visit);
  }
  if (parts[0] == "checkout") {
    title = "Checkout";
    return form_body(path, {"", title, {"Coupon code", "Gift note"}}, visit);
  }
  if (parts[0] == "registry") {
    title = "Registry";
    return registry_body(visit);
  }
  if (parts[0] == "search") {
    title = "Search";
    return search_body(path.substr(std::string("/search/").size()));
  }
  for (const auto& form : forms) {
    if (path != form_path(form.slug)) continue;
    title = form.title;
    return form_body(path, form, visit);
  }
  std::vector<Block> blocks;
  for (const auto& record : records) {
    if (path != record_path(record.code)) continue;
    title = "Record " + record.code;
    for (const auto& line : record.lines) blocks.push_back(paragraph(line));
    return blocks;
  }
  title = "Home";
  for (const auto& notice : notices) blocks.push_back(paragraph(notice));
  return blocks;
}

std::vector<Block> Site::shop_body(const std::vector<std::string>& parts,
                                   std::string& title) const {
  const size_t shop = std::stoul(parts[1]);
  title = shops[shop];
  std::vector<Block> blocks;
  if (parts.size() < 4) {
    for (size_t category = 0; category < kCategories; ++category) {
      Block block;
      block.text("Everything of this kind:")
          .link(categories[category], category_path(shop, category));
      blocks.push_back(std::move(block));
    }
    return blocks;
  }
  const size_t id = std::stoul(parts[3]);
  if (parts[2] == "item") {
    title = articles[id].name + " at " + shops[shop];
    return article_body(shop, articles[id]);
  }
  title = categories[id] + " at " + shops[shop];
  Random random(seed_of(options_.seed, title));
  for (const auto& article : articles) {
    if (article.category != id) continue;
    Block block;
    block.link(article.name, article_path(shop, article.id))
        .text("Brand: " + article.brand + ". Colour: " + article.colour + ". " +
              std::to_string(random.between(2, 99)) + " people looked at it today. " +
              "Price, stock, material and warranty are on its page.");
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<Block> Site::article_body(size_t shop, const Article& article) const {
  Random random(seed_of(options_.seed, article_path(shop, article.id) + " text"));
  std::vector<Block> blocks;
  const auto& sold_in = categories[article.category];
  blocks.push_back(paragraph(article.name + ", colour " + article.colour + ", among the " +
                             sold_in + " of " + shops[shop] + ". " + noise_sentences(random)));
  blocks.push_back(paragraph(material_line(article.id)));
  blocks.push_back(paragraph("Height: " + std::to_string(random.between(9, 180)) +
                             " cm\nWidth: " + std::to_string(random.between(9, 90)) +
                             " cm\nWeight: " + std::to_string(random.between(150, 9000)) + " g"));
  blocks.push_back(paragraph(warranty_line(article.id)));
  blocks.push_back(paragraph(stock_line(shop, article.id)));
  Block buy;
  buy.text(price_line(shop, article.id)).button("Add to cart", "add");
  blocks.push_back(std::move(buy));
  return blocks;
}

std::vector<Block> Site::help_body(const std::string& topic, std::string& title) const {
  std::vector<Block> blocks;
  title = "Help";
  if (topic.empty()) {
    for (size_t i = 0; i < topic_words().size(); ++i) {
      Block block;
      block.link(std::string(topic_words()[i].title), topic_path(i));
      blocks.push_back(std::move(block));
    }
    for (const auto& form : forms) {
      Block block;
      block.link("Form: " + form.title, form_path(form.slug));
      blocks.push_back(std::move(block));
    }
    Block block;
    block.link("Registry of records", "/registry");
    blocks.push_back(std::move(block));
    return blocks;
  }
  for (const auto& clause : clauses) {
    if (topic_words()[clause.topic].slug != topic) continue;
    title = topic_words()[clause.topic].title;
    Random random(seed_of(options_.seed, clause.label));
    blocks.push_back(paragraph(noise_sentences(random) + " " + clause_line(clause) + " " +
                               noise_sentences(random)));
  }
  return blocks;
}

std::vector<Block> Site::cart_body(const Visit& visit) const {
  std::vector<Block> blocks;
  for (const auto& [shop, article] : visit.cart) {
    blocks.push_back(paragraph("In the cart: " + articles[article].name + " from " + shops[shop]));
  }
  if (visit.cart.empty()) blocks.push_back(paragraph("The cart is empty."));
  Block block;
  block.link("Checkout", "/checkout").button("Empty the cart", "empty");
  blocks.push_back(std::move(block));
  return blocks;
}

std::vector<Block> Site::form_body(const std::string& path, const Form& form,
                                   const Visit& visit) const {
  Block block;
  block.text("Please fill in what applies. Entries are kept until the form is sent.");
  for (const auto& label : form.fields) {
    const auto draft = visit.drafts.find({path, label});
    block.field(label, draft == visit.drafts.end() ? "" : draft->second);
  }
  const bool checkout = path == "/checkout";
  block.button(checkout ? "Place the order" : "Send the form", checkout ? "order" : "send");
  return {block};
}

std::vector<Block> Site::registry_body(const Visit& visit) const {
  std::vector<Block> blocks = {paragraph(
      "Records are not listed. Search for the code of a record to open it. Those that you opened "
      "before are linked here.")};
  for (const auto& code : visit.opened_records) {
    Block block;
    block.link("Record " + code, record_path(code));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<Block> Site::search_body(const std::string& words) const {
  const std::string wanted = normalised(words);
  std::vector<Block> blocks;
  const auto found = [&](const std::string& label, const std::string& path) {
    Block block;
    block.link(label, path);
    if (blocks.size() < 2 * kArticlesOfCategory) blocks.push_back(std::move(block));
  };
  for (const auto& record : records) {
    if (normalised(record.code) == wanted) found("Record " + record.code, record_path(record.code));
  }
  for (size_t topic = 0; topic < topic_words().size(); ++topic) {
    const std::string title(topic_words()[topic].title);
    if (has_words(title, wanted)) found(title, topic_path(topic));
  }
  for (const auto& article : articles) {
    if (!has_words(article.name, wanted)) continue;
    for (size_t shop = 0; shop < kShops; ++shop) {
      found(article.name + " at " + shops[shop], article_path(shop, article.id));
    }
  }
  if (blocks.empty()) blocks.push_back(paragraph("Nothing was found."));
  return blocks;
}

std::vector<Block> Site::filler(Random& random, const std::string& path) const {
  Block block;
  const auto parts = split_path(path);
  const bool about_item = parts.size() == 4 && parts[0] == "shop" && parts[2] == "item";
  switch (random.below(about_item ? 6 : 4)) {
    case 0:
    case 1:
      block.text(noise_paragraph(random));
      break;
    case 2: {
      const size_t topic = random.below(topic_words().size());
      block.text(noise_paragraph(random))
          .link(std::string(topic_words()[topic].title), topic_path(topic));
      break;
    }
    case 3: {
      const size_t category = random.below(kCategories);
      const size_t shop = random.below(kShops);
      block.text(noise_sentences(random))
          .link(categories[category] + " at " + shops[shop], category_path(shop, category));
      break;
    }
    default: {
      const size_t article = std::stoul(parts[3]);
      block.text(review(random, articles[article].noun));
    }
  }
  return {block};
}

}  // namespace kvasir::eval::agent
