#include "eval/report/claims_neighbours.h"

#include <algorithm>
#include <functional>

#include "eval/report/claim_rules.h"
#include "eval/report/neighbours_view.h"
#include "eval/report/numbers.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFarNearest = 0.6;  // published: more than 60 %

// In how many layers it holds: "30 of 30 layers".
std::string layers_text(const Json& result, const std::function<bool(const Json&)>& holds) {
  const Json& layers = result.at("layers");
  std::string text = std::to_string(std::count_if(layers.begin(), layers.end(), holds));
  return text.append(" of ").append(std::to_string(layers.size())).append(" layers");
}

Claim far_claim(const Json& result, const Json& mean) {
  const auto holds = [](const Json& layer) { return far_share(layer, "earlier") > kFarNearest; };
  Claim claim{"More than 60 % of nearest tokens are more than 16 positions away", "more than 60 %",
              verdict_of(holds(mean)), "",
              "by the mean of the layers; an earlier token drawn without looking is that far in " +
                  percent_text(mean.at("distances").at("earlier").at("chance"))};
  claim.measured = percent_text(far_share(mean, "earlier"));
  claim.measured.append(", above 60 % in ").append(layers_text(result, holds));
  return claim;
}

std::string ratios_text(const Json& mean, const char* kind) {
  const auto text = [&](const char* part) { return fixed_text(ratio_of(mean, kind, part), 2); };
  std::string all = text("whole");
  return all.append(" (K ").append(text("k")).append(", V ").append(text("v")).append(")");
}

Claim norm_claim(const Json& result, const Json& mean) {
  const auto holds = [](const Json& layer) { return ratio_of(layer, "nearest", "whole") < 1; };
  Claim claim{"Residuals are shorter than the tokens: mean |x - m| / |x| is below 1",
              "a plot, no figure", verdict_of(holds(mean)), ratios_text(mean, "nearest"),
              "by the mean of the layers, K and V together"};
  claim.measured.append(", below 1 in ").append(layers_text(result, holds));
  return claim;
}

// Not the paper's, but what its method stands on.
Claim similarity_claim(const Json& result, const Json& mean) {
  const auto holds = [](const Json& layer) {
    return ratio_of(layer, "nearest", "whole") < ratio_of(layer, "mean", "whole");
  };
  Claim claim{"Control: tokens that are alike leave less than the channel means do", "not compared",
              verdict_of(holds(mean)), "nearest ",
              "by the mean of the layers; reproduced: it holds"};
  claim.measured.append(ratios_text(mean, "nearest")).append(", channel means ");
  claim.measured.append(ratios_text(mean, "mean")).append("; less in ");
  claim.measured.append(layers_text(result, holds));
  return claim;
}

// The share of the 8 strongest directions, where the result has it.
std::string energy_text(const Json& result, const Json& spectrum) {
  for (size_t i = 0; i < result.at("directions").size(); ++i) {
    if (result.at("directions")[i] == 8) return percent_text(spectrum.at("energy")[i]);
  }
  return "not measured";
}

Claim spectrum_claim(const Json& result, const Json& mean, bool centred) {
  const auto holds = [centred](const Json& layer) {
    return effective_rank(layer, "residuals", centred) > effective_rank(layer, "tokens", centred);
  };
  Claim claim{centred ? "Control: the same once channel means are taken from both"
                      : "Residuals have a flatter spectrum than the tokens",
              centred ? "not compared" : "a plot, no figure", verdict_of(holds(mean)),
              "effective rank ",
              centred ? "by the mean effective rank of the layers; reproduced: it holds"
                      : "by the mean effective rank of the layers"};
  const auto rank = [&](const char* of) {
    return fixed_text(effective_rank(mean, of, centred), 1);
  };
  claim.measured.append(rank("residuals")).append(", tokens ").append(rank("tokens"));
  claim.measured.append("; 8 directions hold ");
  claim.measured.append(energy_text(result, whole_spectrum(mean, "residuals", centred)));
  claim.measured.append(" and ").append(
      energy_text(result, whole_spectrum(mean, "tokens", centred)));
  claim.measured.append("; flatter in ").append(layers_text(result, holds));
  return claim;
}

}  // namespace

std::vector<Claim> neighbours_claims(const Json& result) {
  const Json mean = mean_layer(result);
  return {far_claim(result, mean), norm_claim(result, mean), similarity_claim(result, mean),
          spectrum_claim(result, mean, false), spectrum_claim(result, mean, true)};
}

}  // namespace kvasir::eval
