#include "eval/report/figures_neighbours.h"

#include "eval/report/neighbours_view.h"
#include "eval/report/numbers.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

// The figure kind "lines": named series of points on two axes.
class Lines {
 public:
  Lines(const char* x_title, const char* y_title, bool is_share) {
    data_ = {{"x_title", x_title}, {"y_title", y_title},      {"share", is_share},
             {"log_x", false},     {"series", Json::array()}, {"points", Json::array()}};
  }
  void set_log_x() { data_["log_x"] = true; }
  void add_series(const std::string& name, bool is_dashed = false) {
    data_["series"].push_back({{"name", name}, {"dashed", is_dashed}});
  }
  void add(const std::string& series, const Json& x, double y) {
    data_["points"].push_back({{"series", series}, {"x", x}, {"y", y}});
  }
  const Json& data() const { return data_; }

 private:
  Json data_;
};

void add_distances(const Json& result, const Json& mean, std::vector<Figure>& figures) {
  Lines lines("Layer", "Share more than 16 tokens away", true);
  struct Series {
    const char* of;
    const char* field;
    const char* name;
  };
  for (const Series& one : {Series{"earlier", "far", "nearest of all earlier tokens"},
                            Series{"reference", "far", "nearest reference"},
                            Series{"references", "far", "the k nearest references"},
                            Series{"earlier", "chance", "any earlier token, by chance"}}) {
    lines.add_series(one.name, std::string(one.field) == "chance");
    for (const Json& layer : result.at("layers")) {
      lines.add(one.name, layer.at("layer"), layer.at("distances").at(one.of).at(one.field));
    }
  }
  figures.push_back(
      {"lines",
       percent_text(far_share(mean, "earlier")) + " of nearest tokens lie more than 16 tokens away",
       "Tokens before each one by squared distance of K without rotation and V. "
       "Dashed: a token drawn without looking.",
       false, lines.data()});
}

void add_lengths(const Json& result, const Json& mean, std::vector<Figure>& figures) {
  Lines lines("Layer", "Mean |x - m| / |x|", false);
  for (const ReferenceKind& kind : reference_kinds()) {
    const std::string name = kind.text;
    lines.add_series(name, std::string(kind.name) != "nearest");
    for (const Json& layer : result.at("layers")) {
      lines.add(name, layer.at("layer"), ratio_of(layer, kind.name, "whole"));
    }
  }
  figures.push_back(
      {"lines",
       "What is left of a token: " + fixed_text(ratio_of(mean, "nearest", "whole"), 2) +
           " of its length without its nearest references, " +
           fixed_text(ratio_of(mean, "mean", "whole"), 2) + " without channel means",
       "Length of the residual by the token's own; lower is better. Dashed: controls.", false,
       lines.data()});
}

void add_spectra(const Json& result, const Json& mean, std::vector<Figure>& figures) {
  Lines lines("Strongest directions (log scale)", "Share of the sum of squares", true);
  lines.set_log_x();
  struct Series {
    const char* of;
    bool centred;
    const char* name;
  };
  for (const Series& one :
       {Series{"tokens", false, "tokens"}, Series{"residuals", false, "residuals"},
        Series{"tokens", true, "tokens, centred"},
        Series{"residuals", true, "residuals, centred"}}) {
    lines.add_series(one.name, one.centred);
    const Json& energy = whole_spectrum(mean, one.of, one.centred).at("energy");
    for (size_t i = 0; i < energy.size(); ++i) {
      lines.add(one.name, result.at("directions")[i], energy[i]);
    }
  }
  const auto rank = [&](const char* of, bool centred) {
    return fixed_text(effective_rank(mean, of, centred), 0);
  };
  figures.push_back(
      {"lines",
       "Effective rank " + rank("residuals", false) + " of residuals, " + rank("tokens", false) +
           " of tokens; centred " + rank("residuals", true) + " and " + rank("tokens", true),
       "Cumulated, mean of the layers; a flatter spectrum lies lower. Dashed: channel "
       "means taken away.",
       false, lines.data()});
}

}  // namespace

void add_neighbours(const Json& result, std::vector<Figure>& figures) {
  const Json mean = mean_layer(result);
  add_distances(result, mean, figures);
  add_lengths(result, mean, figures);
  add_spectra(result, mean, figures);
}

}  // namespace kvasir::eval
