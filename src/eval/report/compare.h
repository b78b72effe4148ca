// Two result files side by side: what changed for each setting, and whether it is more than chance.
//
// Pure: values in, text of at most 100 columns out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace kvasir::eval {

struct CompareOptions {
  std::string name_a = "A";
  std::string name_b = "B";
  bool allow_different = false;  ///< another model, text or other questions are no reason to refuse
};

/// A table for each measure. Fails with one line if a result is wrong, if the kinds differ, and,
/// unless allowed, if the model, the text, its tokens or the questions do.
Result<std::string> compare_results(const nlohmann::ordered_json& a,
                                    const nlohmann::ordered_json& b,
                                    const CompareOptions& options = {});

}  // namespace kvasir::eval
