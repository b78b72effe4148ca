// What the makers of tasks share: facts and steps put together in one line each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "eval/agent/task.h"

namespace kvasir::eval::agent {

/// Stands for a fact that was lost; right nowhere.
inline constexpr std::string_view kUnknown = "unknown";

/// Adds a fact and returns its index.
size_t add_fact(Task& task, Fact fact);
/// The fact that a site's line "...: VALUE" tells on `source`.
size_t add_line_fact(Task& task, const std::string& line, const std::string& source);
size_t add_clause_fact(Task& task, const Clause& clause);
/// A fact that only the goal tells; the goal must hold the phrase.
size_t add_goal_fact(Task& task, std::string name, std::string phrase, std::string value);

void open(Task& task, std::string path);
/// Opens path_of(what is remembered of `needs`).
void open_by(Task& task, std::vector<size_t> needs, std::function<std::string(Remembered)> path_of);
void press(Task& task, std::string page, std::string label);
/// Types the fact's value into a field.
void type_fact(Task& task, std::string page, std::string label, size_t fact);
void search_fact(Task& task, size_t fact);
void answer_by(Task& task, std::vector<size_t> needs, std::function<std::string(Remembered)> text);

/// The values with ", " between them, kUnknown for what was lost.
std::string joined(Remembered values);

/// `count` different indices below `size`, in random order.
std::vector<size_t> sample(Random& random, size_t size, size_t count);

/// The number at the front of "84.90 crowns" in hundredths, of "3 years" times 100.
int64_t hundredths(const std::string& value);

void make_cheapest(Task& task, Random& random);
void make_compare_shops(Task& task, Random& random);
void make_count(Task& task, Random& random);
void make_sum(Task& task, Random& random);
void make_gift_order(Task& task, Random& random);
void make_recall(Task& task, Random& random);
void make_form(Task& task, Random& random);
void make_chain(Task& task, Random& random);
void make_information(Task& task, Random& random);
void make_registration(Task& task, Random& random);

}  // namespace kvasir::eval::agent
