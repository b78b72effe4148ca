// Where the settings lose, found in a result by fixed rules, so that a page cannot leave it out.
//
// Requires: the result has passed check_result. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir::eval {

/// One sentence each, plain text, in the order of the file.
struct Losses {
  std::vector<std::string> scores;   ///< upper end of the interval below the reference's lower end
  std::vector<std::string> groups;   ///< the same for groups by tags
  std::vector<std::string> kl;       ///< more than twice another's KL at equal or fewer bytes of it
  std::vector<std::string> memory;   ///< no fewer bytes than the full cache
  std::vector<std::string> premise;  ///< confidence that does not surely fall where KL rises
  std::vector<std::string> failures;  ///< errors and skipped samples, counted

  bool empty() const {
    return scores.empty() && groups.empty() && kl.empty() && memory.empty() && premise.empty() &&
           failures.empty();
  }
};

Losses find_losses(const nlohmann::ordered_json& result);

/// The rules in words, for below the list.
const char* loss_rules();

}  // namespace kvasir::eval
