// What a set of flags costs on a model: live tokens and bytes of K/V rows at given lengths.
//
// Asks the policy's own budget rule. Counts rows as they are allocated, in whole pages, for one
// sequence; metadata and workspace are left out. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "app/model_file.h"
#include "base/result.h"
#include "cache/options.h"

namespace kvasir::app {

/// One length of text. Sliding-window layers hold their window and are never evicted; token counts
/// are of the other layers, the largest of them.
struct Cost {
  int64_t tokens = 0;        ///< length of the text
  int64_t live_sure = 0;     ///< live tokens of a layer after a step that is sure
  int64_t live_unsure = 0;   ///< after one that is not; >= live_sure
  int64_t full_bytes = 0;    ///< f16 rows of every token
  int64_t steady_bytes = 0;  ///< after an unsure step
  int64_t peak_bytes = 0;    ///< while the text is read as a prompt
};

/// One Cost for each of `lengths`. `chunk` is the number of tokens in a chunk of the prompt (-ub).
/// Fails with one line when the policy does.
Result<std::vector<Cost>> costs(const ModelInfo& model, const CacheOptions& options,
                                std::span<const int64_t> lengths, int64_t chunk = 512);

/// What --kv-budget-mb gives on a model.
struct CapCost {
  int64_t least_mib = 0;  ///< the smallest cap that ubatches of n_ubatch tokens never break
  int32_t tokens = 0;     ///< per layer, for each of n_streams sequences that decode; 0: too small
};

/// Of the cap in `options` for n_streams sequences of equal length. Fails where the policy or the
/// format does. Requires: options.budget_mb > 0.
Result<CapCost> cap_cost(const ModelInfo& model, const CacheOptions& options, int32_t n_streams,
                         int32_t n_ubatch, int32_t n_threads);

}  // namespace kvasir::app
