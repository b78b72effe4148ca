#include "eval/report/neighbours_view.h"

#include <cassert>

#include "eval/report/numbers.h"
#include "eval/report/result_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string spectrum_name(const char* of, bool centred) {
  std::string text = of;
  return text.append(centred ? ", less their channel means" : "");
}

}  // namespace

const std::vector<ReferenceKind>& reference_kinds() {
  static const std::vector<ReferenceKind> kinds = {{"nearest", "nearest references"},
                                                   {"mean", "channel means"},
                                                   {"local", "last reference before it"},
                                                   {"random", "random references"}};
  return kinds;
}

// Number by number; what is no number in a layer stays as it is in the first.
Json mean_layer(const Json& result) {
  const Json& layers = result.at("layers");
  assert(!layers.empty());
  std::vector<Json> flat;  // numbers by the path that leads to them
  for (const Json& layer : layers) flat.push_back(layer.flatten());
  Json mean = layers[0];
  for (const auto& [path, first] : flat[0].items()) {
    if (!first.is_number()) continue;
    double sum = 0;
    for (const Json& layer : flat) sum += number_or(layer, path.c_str(), first.get<double>());
    mean.at(Json::json_pointer(path)) = sum / static_cast<double>(layers.size());
  }
  return mean;
}

double ratio_of(const Json& layer, const char* kind, const char* part) {
  return layer.at("length_ratio").at(kind).at(part);
}

double far_share(const Json& layer, const char* of) {
  return layer.at("distances").at(of).at("far");
}

std::vector<std::string> distance_bins(const Json& result) {
  std::vector<std::string> bins;
  int64_t first = 1;
  for (const Json& end : result.at("distance_ends")) {
    bins.push_back(std::to_string(first) + "-" + std::to_string(end.get<int64_t>()));
    first = end.get<int64_t>() + 1;
  }
  bins.emplace_back("more");
  return bins;
}

std::vector<double> distance_shares(const Json& layer, const char* of) {
  const Json& counts = layer.at("distances").at(of).at("counts");
  double total = 0;
  for (const Json& count : counts) total += count.get<double>();
  std::vector<double> shares;
  for (const Json& count : counts) shares.push_back(total > 0 ? count.get<double>() / total : 0);
  return shares;
}

const Json& whole_spectrum(const Json& layer, const char* of, bool centred) {
  for (const Json& one : layer.at("spectra")) {
    if (one.at("part") == "whole" && one.at("of") == of && one.at("centred") == centred) return one;
  }
  assert(false);
  return layer;
}

double effective_rank(const Json& layer, const char* of, bool centred) {
  return whole_spectrum(layer, of, centred).at("effective_rank");
}

std::string MainFigure::text() const { return is_share ? percent_text(value) : number_text(value); }

std::vector<MainFigure> main_figures(const Json& result) {
  const Json mean = mean_layer(result);
  const Json& distances = mean.at("distances");
  std::vector<MainFigure> figures = {
      {"more than 16 away: nearest of all earlier tokens", far_share(mean, "earlier"), true},
      {"more than 16 away: any earlier token", distances.at("earlier").at("chance"), true},
      {"more than 16 away: nearest reference", far_share(mean, "reference"), true},
      {"more than 16 away: the k nearest references", far_share(mean, "references"), true},
      {"more than 16 away: any earlier reference", distances.at("references").at("chance"), true}};
  for (const ReferenceKind& kind : reference_kinds()) {
    for (const char* part : {"whole", "k", "v"}) {
      std::string name = "|x - m| / |x|, ";
      name.append(kind.text).append(part[0] == 'w' ? "" : part[0] == 'k' ? ", K" : ", V");
      figures.push_back({name, ratio_of(mean, kind.name, part), false});
    }
  }
  figures.push_back({"K of |x|^2", mean.at("k_share").at("lengths"), true});
  figures.push_back(
      {"K of squared distances to nearest references", mean.at("k_share").at("nearest"), true});
  figures.push_back({"K of squared distances to any", mean.at("k_share").at("random"), true});
  for (const bool centred : {false, true}) {
    for (const char* of : {"tokens", "residuals"}) {
      const std::string name = spectrum_name(of, centred);
      const Json& spectrum = whole_spectrum(mean, of, centred);
      figures.push_back({"effective rank, " + name, spectrum.at("effective_rank"), false});
      for (size_t i = 0; i < result.at("directions").size(); ++i) {
        const double directions = result.at("directions")[i];
        if (directions != 1 && directions != 8 && directions != 32) continue;
        std::string text = "energy of ";
        text.append(count_text(directions))
            .append(directions == 1 ? " direction, " : " directions, ");
        figures.push_back({text.append(name), spectrum.at("energy")[i], true});
      }
    }
  }
  return figures;
}

}  // namespace kvasir::eval
