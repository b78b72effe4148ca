#include "eval/neighbours/neighbours.h"

#include <algorithm>
#include <cassert>

#include "device/inspect.h"
#include "device/openmp_for.h"
#include "kernels/kernels.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kCellStep = 256;  // llama.cpp makes caches of whole steps
constexpr uint64_t kSeed = 1;

// The others less their references, and as they are: [others, width] each.
struct Residuals {
  std::vector<float> tokens, left;
};

Residuals residuals_of(const TokenVectors& vectors, const Parted& parted,
                       const std::vector<float>& means) {
  Residuals r;
  r.tokens.reserve(means.size());
  r.left.reserve(means.size());
  for (const int32_t token : parted.others) {
    for (int32_t d = 0; d < vectors.width(); ++d) {
      r.tokens.push_back(vectors.at(token)[d]);
      r.left.push_back(vectors.at(token)[d] - means[r.left.size()]);
    }
  }
  return r;
}

void add_spectra(const std::vector<float>& of, const char* name, const TokenVectors& vectors,
                 std::vector<SpectrumOf>& spectra) {
  const int32_t width = vectors.width();
  const Directions directions(of.data(), static_cast<int32_t>(of.size()) / width, width);
  struct Part {
    const char* name;
    int32_t first, width;
  };
  for (const Part& part : {Part{"whole", 0, width}, Part{"k", 0, vectors.width_k},
                           Part{"v", vectors.width_k, vectors.width_v}}) {
    for (const bool centred : {false, true}) {
      spectra.push_back({part.name, name, centred,
                         spectrum_of(directions.squares(part.first, part.width, centred))});
    }
  }
}

// Cells for all tokens, and more than sliding-window layers have, by which these are told apart.
// A cell without a row costs nothing.
int32_t cells_for(int32_t n_tokens, int32_t window, int32_t n_ubatch) {
  const int32_t n = std::max(n_tokens, window == 0 ? 0 : window + n_ubatch + kCellStep);
  return (n + kCellStep) / kCellStep * kCellStep;
}

CacheOptions exact_residual(int32_t n_tokens) {
  CacheOptions options;
  options.format = "residual";  // the cache learns how keys are rotated
  options.recent = n_tokens;    // and demotes none of them
  return options;
}

}  // namespace

LayerFigures measure_layer(int32_t layer, const TokenVectors& vectors, const ReferencePlan& plan,
                           const KvKernels& kernels, ParallelFor& parallel) {
  const Parted parted = part_tokens(plan, vectors.n);
  assert(!parted.others.empty() && !parted.references.empty());
  const int32_t k = plan.neighbours;
  const Chosen nearest = nearest_references(vectors, parted, k, kernels, parallel);
  const Chosen random = random_references(parted, k, kSeed);
  const std::vector<float> means = mean_references(vectors, nearest);
  const auto ratio = [&](const std::vector<float>& m) { return length_ratio(vectors, parted, m); };

  LayerFigures figures;
  figures.layer = layer;
  figures.n_tokens = vectors.n;
  figures.n_references = static_cast<int32_t>(parted.references.size());
  figures.earlier = distances_of(nearest_earlier(vectors, kernels, parallel));
  figures.reference = distances_of(parted, nearest, 1);
  figures.references = distances_of(parted, nearest, k);
  figures.chance_earlier = far_by_chance(vectors.n);
  figures.chance_references = far_by_chance(parted);
  figures.ratios = {ratio(means), ratio(channel_means(vectors, parted.others.size())),
                    ratio(mean_references(vectors, local_references(parted))),
                    ratio(mean_references(vectors, random))};
  figures.k_of_lengths = k_share_of_lengths(vectors, parted);
  figures.k_of_nearest = k_share_of_distances(vectors, parted, nearest);
  figures.k_of_random = k_share_of_distances(vectors, parted, random);
  const Residuals residuals = residuals_of(vectors, parted, means);
  add_spectra(residuals.tokens, "tokens", vectors, figures.spectra);
  add_spectra(residuals.left, "residuals", vectors, figures.spectra);
  return figures;
}

Result<void> run_neighbours(std::shared_ptr<llama_model> model, const SessionParams& params,
                            std::span<const llama_token> tokens, const ReferencePlan& plan,
                            const std::set<int32_t>& done, const OnLayer& on_layer) {
  const auto n = static_cast<int32_t>(tokens.size());
  SessionParams own = params;
  own.n_ctx = cells_for(n, llama_model_n_swa(model.get()), params.n_ubatch);
  auto kv = KvSession::open(std::move(model), exact_residual(n), own);
  if (!kv) return Error{kv.error()};
  auto filled = kv.value().session().fill(tokens, 0);
  if (!filled) return filled;
  device::OpenMpFor parallel;
  parallel.set_n_workers(params.n_threads);
  bool any = false;
  auto shown = device::for_layer_tokens(
      kv.value().caches(), 0, [&](device::LayerTokens layer) -> Result<void> {
        any = true;
        if (done.contains(layer.layer)) return {};
        const TokenVectors vectors{n, layer.geometry.width_k(), layer.geometry.width_v(),
                                   std::move(layer.x)};
        if (vectors.x.size() != static_cast<size_t>(n) * static_cast<size_t>(vectors.width())) {
          return Error{"layer " + std::to_string(layer.layer) + " does not hold every token"};
        }
        return on_layer(measure_layer(layer.layer, vectors, plan, best_kernels(), parallel));
      });
  if (shown && !any) return Error{"this model has no layer that keeps every token"};
  return shown;
}

}  // namespace kvasir::eval
