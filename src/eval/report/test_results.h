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

/// One of every kind of the schema.
std::vector<nlohmann::ordered_json> all_results();

}  // namespace kvasir::eval
