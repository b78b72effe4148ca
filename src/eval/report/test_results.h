// Small results of every kind for the tests of this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir::eval {

/// Four settings: full, conf-128, window-128 and window-512. conf-128 is nearer than window-512 and
/// smaller; window-128 is as far as window-512.
nlohmann::ordered_json fidelity_result();

/// Needles at two lengths and two depths: full finds all, conf-128 most, window-128 none; one
/// sample of window-128 is an error.
nlohmann::ordered_json needle_result();

/// The same as another kind with scores; "agent" has the fields of agents.
nlohmann::ordered_json scored_result(const std::string& kind);

nlohmann::ordered_json premise_result();

/// Two layers, 0 and 5. In the first all of DeltaKV's observations hold, in the second none.
nlohmann::ordered_json neighbours_result();

/// A setting of a fidelity result by hand.
struct HandMadeSet {
  std::string name;
  std::string flags;
  double ppl;
};
/// Fidelity of these sets, each with KL 0.1 and one MiB, against a perplexity of 11.
nlohmann::ordered_json fidelity_of(const std::vector<HandMadeSet>& sets);
/// Fidelity of --methods: the rows of the paper with its perplexities, or with these turned round;
/// a step of the reference takes 15 ms, others 10.
nlohmann::ordered_json methods_fidelity(bool published_order);
/// Needles under conf, h2o and window, so many of 40 right; full finds all.
nlohmann::ordered_json methods_needle(int conf, int h2o, int window);

/// One of every kind of the schema.
std::vector<nlohmann::ordered_json> all_results();

}  // namespace kvasir::eval
