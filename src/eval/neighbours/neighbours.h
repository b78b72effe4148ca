// The two observations that DeltaKV rests on (arXiv 2602.08005), measured in the layers of a model:
// tokens that are alike lie far apart, and what is left of a token once tokens like it are taken
// away is shorter and spread more evenly. Knows sessions; prints nothing.
#pragma once

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "eval/neighbours/distances.h"
#include "eval/neighbours/residuals.h"
#include "eval/neighbours/spectrum.h"
#include "eval/run/kv_session.h"

namespace kvasir::eval {

/// What a token may be set against, in the order in which results have it: the paper's choice, then
/// controls.
inline constexpr std::array<const char*, 4> kReferenceKinds = {"nearest", "mean", "local",
                                                               "random"};

struct SpectrumOf {
  std::string part;  ///< "whole", "k", "v"
  std::string of;    ///< "tokens", "residuals"
  bool centred = false;
  Spectrum spectrum;
};

struct LayerFigures {
  int32_t layer = 0;
  int32_t n_tokens = 0, n_references = 0;
  Distances earlier;     ///< to the nearest of all earlier tokens
  Distances reference;   ///< to the nearest reference
  Distances references;  ///< to all k nearest references
  double chance_earlier = 0, chance_references = 0;
  std::array<ByHalf, kReferenceKinds.size()> ratios;  ///< mean |x - m| / |x|
  /// Share of K in squares: of x, of what separates it from the nearest references, from any.
  double k_of_lengths = 0, k_of_nearest = 0, k_of_random = 0;
  std::vector<SpectrumOf> spectra;  ///< of tokens that are no references, and of x - m, m nearest
};

/// Requires: more tokens than sinks and two more, k >= 1, stride >= 2.
LayerFigures measure_layer(int32_t layer, const TokenVectors& vectors, const ReferencePlan& plan,
                           const KvKernels& kernels, ParallelFor& parallel);

/// Takes each layer as it is measured; a failure ends the run with it.
using OnLayer = std::function<Result<void>(const LayerFigures& figures)>;

/// Reads the tokens with every row kept as it is and measures each layer but those in `done`.
/// Sliding-window layers are left out, as --kv-format residual leaves them. `model` was loaded onto
/// the device. Fails with one line.
Result<void> run_neighbours(std::shared_ptr<llama_model> model, const SessionParams& params,
                            std::span<const llama_token> tokens, const ReferencePlan& plan,
                            const std::set<int32_t>& done, const OnLayer& on_layer);

}  // namespace kvasir::eval
