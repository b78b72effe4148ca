// The layers that read every token where others do not (--kv-full-layers), and --kv-keep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvasir {

/// "0,1,2" of ascending numbers.
std::string layer_list(const std::vector<int32_t>& layers);

/// The layers that are given, or else the first ones and, deeper down, one a quarter and one nine
/// sixteenths of the way: 0, 1, 2, L/4, 9L/16. For L = 32 these are OmniKV's and DeltaKV's of
/// Llama-3.1-8B: 0, 1, 2, 8, 18. Ascending, each once.
std::vector<int32_t> usual_full_layers(int32_t n_layers);
/// True if a layer is one of them. Requires: layer < n_layers.
bool is_usual_full_layer(int32_t layer, int32_t n_layers);

/// Fails where a layer of the list is none of n_layers.
Result<void> check_full_layers(const std::vector<int32_t>& layers, int32_t n_layers);

}  // namespace kvasir
