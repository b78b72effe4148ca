// The figures of a result: what each shows and the values in it, for figures.js to draw.
//
// Requires: the result has passed check_result. Pure; knows nothing of markup.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir::eval {

struct Figure {
  std::string kind;     ///< a function of figures.js: "memory", "needle", ...
  std::string title;    ///< what is seen in it
  std::string note;     ///< how to read it; may be empty
  bool narrow = false;  ///< small enough to stand beside others of its kind
  nlohmann::ordered_json data;
};

std::vector<Figure> make_figures(const nlohmann::ordered_json& result);

}  // namespace kvasir::eval
