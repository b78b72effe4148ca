// Questions about a result of `kvasir eval neighbours` that the table, the page and the comparison
// ask. Requires: the result has passed check_result. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/report/field_check.h"

namespace kvasir::eval {

/// What a token is set against, as results name it, and as people read it.
struct ReferenceKind {
  const char* name;
  const char* text;
};
const std::vector<ReferenceKind>& reference_kinds();

/// The mean of all layers, with the fields of one.
nlohmann::ordered_json mean_layer(const nlohmann::ordered_json& result);

/// Mean |x - m| / |x| of a layer; `part` is "whole", "k" or "v".
double ratio_of(const nlohmann::ordered_json& layer, const char* kind, const char* part);
/// Share of distances above 16 of a layer; `of` is "earlier", "reference" or "references".
double far_share(const nlohmann::ordered_json& layer, const char* of);
/// The bins of distances in words: "1-4", "5-16", ..., "more".
std::vector<std::string> distance_bins(const nlohmann::ordered_json& result);
/// Share of distances of a layer in each of them; `of` as above.
std::vector<double> distance_shares(const nlohmann::ordered_json& layer, const char* of);
/// The spectrum of whole vectors of a layer; `of` is "tokens" or "residuals".
const nlohmann::ordered_json& whole_spectrum(const nlohmann::ordered_json& layer, const char* of,
                                             bool centred);
double effective_rank(const nlohmann::ordered_json& layer, const char* of, bool centred);

/// A figure that sums a result up, over all layers.
struct MainFigure {
  std::string name;
  double value = 0;
  bool is_share = false;
  std::string text() const;
};
std::vector<MainFigure> main_figures(const nlohmann::ordered_json& result);

/// Checks what the schema says of this kind alone.
void check_neighbours(FieldCheck& check, const nlohmann::ordered_json& result);

}  // namespace kvasir::eval
