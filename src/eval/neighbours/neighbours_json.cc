#include "eval/neighbours/neighbours_json.h"

namespace kvasir::eval {
namespace {

Json distances_json(const Distances& distances, double chance) {
  return {{"far", distances.far()}, {"chance", chance}, {"counts", distances.counts}};
}

Json by_half(const ByHalf& value) {
  return {{"whole", value.whole}, {"k", value.k}, {"v", value.v}};
}

}  // namespace

Json layer_json(const LayerFigures& figures) {
  Json json = {{"layer", figures.layer},
               {"tokens", figures.n_tokens},
               {"references", figures.n_references},
               {"distances",
                {{"earlier", distances_json(figures.earlier, figures.chance_earlier)},
                 {"reference", distances_json(figures.reference, figures.chance_references)},
                 {"references", distances_json(figures.references, figures.chance_references)}}}};
  for (size_t i = 0; i < kReferenceKinds.size(); ++i) {
    json["length_ratio"][kReferenceKinds[i]] = by_half(figures.ratios[i]);
  }
  json["k_share"] = {{"lengths", figures.k_of_lengths},
                     {"nearest", figures.k_of_nearest},
                     {"random", figures.k_of_random}};
  json["spectra"] = Json::array();
  for (const SpectrumOf& one : figures.spectra) {
    json["spectra"].push_back({{"part", one.part},
                               {"of", one.of},
                               {"centred", one.centred},
                               {"effective_rank", one.spectrum.effective_rank},
                               {"energy", one.spectrum.energy}});
  }
  return json;
}

Json distance_ends_json() { return kDistanceEnds; }

Json directions_json() {
  Json directions = Json::array();
  for (int32_t point = 0; point < kSpectrumPoints; ++point) directions.push_back(1 << point);
  return directions;
}

}  // namespace kvasir::eval
