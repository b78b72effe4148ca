// Tasks on help pages, forms and records.
#include <algorithm>

#include "eval/agent/task_parts.h"
#include "eval/agent/words.h"

namespace kvasir::eval::agent {
namespace {

/// One clause of each of `count` topics.
std::vector<Clause> pick_clauses(const Site& site, Random& random, size_t count) {
  std::vector<Clause> picked;
  for (const size_t topic : sample(random, topic_words().size(), count)) {
    std::vector<Clause> all;
    for (const auto& clause : site.clauses) {
      if (clause.topic == topic) all.push_back(clause);
    }
    picked.push_back(random.pick(all));
  }
  return picked;
}

/// "the NAME (help page TITLE)"
std::string told_on(const Clause& clause) {
  return "the " + clause.label + " (help page " + std::string(topic_words()[clause.topic].title) +
         ")";
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

/// A form whose fields are the names of facts: adds it, types all, sends it.
void fill_form(Task& task, const std::string& slug, const std::string& title,
               const std::vector<size_t>& facts) {
  const std::string path = Site::form_path(slug);
  Form form{slug, title, {}};
  for (const size_t fact : facts) {
    const std::string label = capital(task.facts[fact].name);
    form.fields.push_back(label);
    type_fact(task, path, label, fact);
    task.outcome.fields.emplace_back(label, task.facts[fact].value);
  }
  task.site.forms.push_back(std::move(form));
  task.outcome.form = path;
  press(task, path, "Send the form");
}

/// Forms that no task asks for.
void add_other_forms(Site& site) {
  site.forms.push_back({"contact", "Contact", {"Your name", "Your message"}});
  site.forms.push_back({"catalogue", "Printed catalogue", {"Street", "City"}});
}

}  // namespace

void make_recall(Task& task, Random& random) {
  Site& site = task.site;
  add_other_forms(site);
  const std::string number = make_code(random, 6);
  site.notices.push_back("Welcome back. Your latest order has the number " + number +
                         " and is on its way.");
  const auto clauses = pick_clauses(site, random, 3);
  task.goal =
      "Send back your latest order, whose number the home page tells. The form is called "
      "\"Return of an order\" and is linked on the help page. Besides the order number it "
      "asks for " +
      told_on(clauses[0]) + ", " + told_on(clauses[1]) + " and " + told_on(clauses[2]) +
      ". Read those pages first.";
  std::vector<size_t> facts;
  for (const auto& clause : clauses) {
    facts.push_back(add_clause_fact(task, clause));
    open(task, Site::topic_path(clause.topic));
  }
  facts.push_back(add_fact(
      task, {"order number", "latest order has the number " + number, number, Site::home_path()}));
  fill_form(task, "return", "Return of an order", facts);
}

void make_form(Task& task, Random& random) {
  Site& site = task.site;
  add_other_forms(site);
  const auto clauses = pick_clauses(site, random, 4);
  task.goal = "Fill in and send the form \"Claim\", which is linked on the help page. It asks for";
  std::vector<size_t> facts;
  for (const auto& clause : clauses) {
    task.goal += (facts.empty() ? " " : ", ") + told_on(clause);
    facts.push_back(add_clause_fact(task, clause));
    open(task, Site::topic_path(clause.topic));
  }
  task.goal += ".";
  fill_form(task, "claim", "Claim", facts);
}

void make_registration(Task& task, Random& random) {
  Site& site = task.site;
  add_other_forms(site);
  std::vector<Clause> clauses;
  for (const auto& clause : site.clauses) {
    if (clause.label == "consent phrase" || clause.label == "privacy file number") {
      clauses.push_back(clause);
    }
  }
  const std::vector<Field> own = {{"full name", make_value(ValueKind::kPerson, random)},
                                  {"customer number", make_code(random, 6)},
                                  {"home city", make_value(ValueKind::kCity, random)}};
  task.goal = "Register with the form \"Registration\", which is linked on the help page.";
  for (const auto& [label, value] : own) {
    task.goal.append(" Your ").append(label).append(" is ").append(value).append(".");
  }
  task.goal += " The form also asks for " + told_on(clauses[0]) + " and " + told_on(clauses[1]) +
               ", so read these two pages first.";
  std::vector<size_t> facts;
  facts.reserve(own.size() + clauses.size());
  for (const auto& [label, value] : own) {
    std::string phrase = "Your ";
    phrase.append(label).append(" is ").append(value);
    facts.push_back(add_goal_fact(task, label, phrase, value));
  }
  for (const auto& clause : clauses) {
    facts.push_back(add_clause_fact(task, clause));
    open(task, Site::topic_path(clause.topic));
  }
  fill_form(task, "registration", "Registration", facts);
}

void make_chain(Task& task, Random& random) {
  constexpr size_t kLinks = 4;
  Site& site = task.site;
  const size_t topic = random.below(topic_words().size());
  const auto words = sample(random, plain_words().size(), kLinks);
  std::vector<std::string> codes;
  for (size_t i = 0; i < kLinks; ++i) {
    codes.push_back(make_code(random, 4) + std::to_string(i + 1));
  }
  task.goal = "Collect words: the help page " + std::string(topic_words()[topic].title) +
              " names a first record code. Search for the code to find the record. It has a word "
              "and names the next record's code, and so on, " +
              std::to_string(kLinks) + " records in all. Answer with their words.";
  site.clauses.push_back({topic, "first record code", codes[0]});
  open(task, Site::topic_path(topic));
  std::vector<size_t> needs;
  size_t code = add_clause_fact(task, site.clauses.back());
  for (size_t i = 0; i < kLinks; ++i) {
    const std::string path = Site::record_path(codes[i]);
    const std::string word(plain_words()[words[i]]);
    Record record{codes[i], {}};
    record.lines.push_back("The word of record " + codes[i] + " is " + word + ".");
    search_fact(task, code);
    open(task, path);
    needs.push_back(add_fact(task, {"word " + std::to_string(i + 1), record.lines[0], word, path}));
    if (i + 1 < kLinks) {
      record.lines.push_back("After record " + codes[i] + " comes " + codes[i + 1] + ".");
      code = add_fact(task,
                      {"code " + std::to_string(i + 2), record.lines.back(), codes[i + 1], path});
    } else {
      record.lines.emplace_back("This is the last record.");
    }
    task.outcome.answer.push_back(word);
    site.records.push_back(std::move(record));
  }
  answer_by(task, needs, joined);
}

void make_information(Task& task, Random& random) {
  const Site& site = task.site;
  const auto clauses = pick_clauses(site, random, 2);
  const Article& article = random.pick(site.articles);
  const size_t shop = random.below(kShops);
  task.goal = "Answer a question: what are " + told_on(clauses[0]) + ", " + told_on(clauses[1]) +
              " and the price of " + article.name + " (among the " +
              site.categories[article.category] + ") at " + site.shops[shop] +
              "? Answer with the three values.";
  const size_t name = add_goal_fact(task, "product", "the price of " + article.name, article.name);
  std::vector<size_t> needs;
  for (const auto& clause : clauses) {
    open(task, Site::topic_path(clause.topic));
    needs.push_back(add_clause_fact(task, clause));
  }
  const std::string path = Site::article_path(shop, article.id);
  open_by(task, {name},
          [path, wrong = Site::article_path(shop, article.id ^ 1)](Remembered values) {
            return values[0] ? path : wrong;
          });
  needs.push_back(add_line_fact(task, site.price_line(shop, article.id), path));
  answer_by(task, needs, joined);
  for (const size_t need : needs) {
    task.outcome.answer.push_back(without_unit(task.facts[need].value));
  }
}

}  // namespace kvasir::eval::agent
