#include <array>

#include "eval/report/neighbours_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;
using Type = FieldType;

constexpr size_t kMostEntries = 64;
constexpr size_t kMostLayers = 1000;

struct Expected {
  const char* part;
  const char* of;
  bool centred;
};
constexpr std::array kSpectra = {
    Expected{"whole", "tokens", false},    Expected{"whole", "tokens", true},
    Expected{"k", "tokens", false},        Expected{"k", "tokens", true},
    Expected{"v", "tokens", false},        Expected{"v", "tokens", true},
    Expected{"whole", "residuals", false}, Expected{"whole", "residuals", true},
    Expected{"k", "residuals", false},     Expected{"k", "residuals", true},
    Expected{"v", "residuals", false},     Expected{"v", "residuals", true}};

bool check_length(FieldCheck& check, const Json& list, const std::string& path, size_t expected) {
  return list.size() == expected ||
         check.complain(path, describe_value(list), std::to_string(expected) + " of them");
}

bool check_distances(FieldCheck& check, const Json& distances, const std::string& path,
                     size_t n_bins) {
  for (const char* of : {"earlier", "reference", "references"}) {
    const std::string at = child_path(path, of);
    if (!check.object(distances, path, {{of, Type::kObject}}) ||
        !check.object(
            distances.at(of), at,
            {{"far", Type::kShare}, {"chance", Type::kShare}, {"counts", Type::kArray}}) ||
        !check.counts(distances.at(of).at("counts"), at + ".counts", kMostEntries) ||
        !check_length(check, distances.at(of).at("counts"), at + ".counts", n_bins)) {
      return false;
    }
  }
  return true;
}

bool check_ratios(FieldCheck& check, const Json& ratios, const std::string& path) {
  for (const ReferenceKind& kind : reference_kinds()) {
    if (!check.object(ratios, path, {{kind.name, Type::kObject}}) ||
        !check.object(ratios.at(kind.name), child_path(path, kind.name),
                      {{"whole", Type::kAmount}, {"k", Type::kAmount}, {"v", Type::kAmount}})) {
      return false;
    }
  }
  return true;
}

bool check_energy(FieldCheck& check, const Json& energy, const std::string& path, size_t n) {
  if (!check_length(check, energy, path, n)) return false;
  for (size_t i = 0; i < n; ++i) {
    if (energy[i].is_number() && energy[i] >= 0 && energy[i] <= 1) continue;
    return check.complain(item_path(path, i), describe_value(energy[i]), "a number from 0 to 1");
  }
  return true;
}

bool check_spectra(FieldCheck& check, const Json& layer, const std::string& path,
                   size_t n_directions) {
  const std::string at = path + ".spectra";
  const Json& spectra = layer.at("spectra");
  if (!check_length(check, spectra, at, kSpectra.size()) ||
      !check.objects(layer, path, "spectra",
                     {{"part", Type::kName},
                      {"of", Type::kName},
                      {"centred", Type::kTruth},
                      {"effective_rank", Type::kAmount},
                      {"energy", Type::kArray}})) {
    return false;
  }
  for (size_t i = 0; i < kSpectra.size(); ++i) {
    const Json& one = spectra[i];
    if (one.at("part") != kSpectra[i].part || one.at("of") != kSpectra[i].of ||
        one.at("centred") != kSpectra[i].centred) {
      return check.complain(item_path(at, i), describe_value(one.at("part")),
                            "parts, vectors and centring in the order of the schema");
    }
    if (!check_energy(check, one.at("energy"), item_path(at, i) + ".energy", n_directions)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void check_neighbours(FieldCheck& check, const Json& result) {
  if (!check.object(result, "",
                    {{"text", Type::kObject},
                     {"references", Type::kObject},
                     {"model_layers", Type::kCount},
                     {"distance_ends", Type::kArray},
                     {"directions", Type::kArray},
                     {"layers", Type::kArray}}) ||
      !check.object(result.at("text"), "text",
                    {{"name", Type::kText}, {"tokens", Type::kCount}, {"prefix", Type::kCount}}) ||
      !check.object(
          result.at("references"), "references",
          {{"stride", Type::kCount}, {"neighbours", Type::kCount}, {"sinks", Type::kCount}}) ||
      !check.counts(result.at("distance_ends"), "distance_ends", kMostEntries) ||
      !check.counts(result.at("directions"), "directions", kMostEntries)) {
    return;
  }
  const Json& layers = result.at("layers");
  if (layers.empty() || layers.size() > kMostLayers) {
    check.complain("layers", describe_value(layers), "1 to " + std::to_string(kMostLayers));
    return;
  }
  if (!check.objects(result, "", "layers",
                     {{"layer", Type::kCount},
                      {"tokens", Type::kCount},
                      {"references", Type::kCount},
                      {"distances", Type::kObject},
                      {"length_ratio", Type::kObject},
                      {"k_share", Type::kObject},
                      {"spectra", Type::kArray}})) {
    return;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string path = item_path("layers", i);
    if (!check_distances(check, layers[i].at("distances"), path + ".distances",
                         result.at("distance_ends").size() + 1) ||
        !check_ratios(check, layers[i].at("length_ratio"), path + ".length_ratio") ||
        !check.object(
            layers[i].at("k_share"), path + ".k_share",
            {{"lengths", Type::kShare}, {"nearest", Type::kShare}, {"random", Type::kShare}}) ||
        !check_spectra(check, layers[i], path, result.at("directions").size())) {
      return;
    }
  }
}

}  // namespace kvasir::eval
