#include "select/full_layers.h"

#include <algorithm>

namespace kvasir {

std::string layer_list(const std::vector<int32_t>& layers) {
  std::string text;
  for (const int32_t layer : layers) {
    text.append(text.empty() ? "" : ",").append(std::to_string(layer));
  }
  return text;
}

bool is_usual_full_layer(int32_t layer, int32_t n_layers) {
  return layer <= 2 || layer == n_layers / 4 || layer == 9 * n_layers / 16;
}

std::vector<int32_t> usual_full_layers(int32_t n_layers) {
  std::vector<int32_t> layers;
  for (int32_t layer = 0; layer < std::max(1, n_layers); ++layer) {
    if (is_usual_full_layer(layer, n_layers)) layers.push_back(layer);
  }
  return layers;
}

Result<void> check_full_layers(const std::vector<int32_t>& layers, int32_t n_layers) {
  if (layers.empty() || layers.back() < n_layers) return {};
  return Error{"--kv-full-layers " + layer_list(layers) + ": the cache has " +
               std::to_string(n_layers) + " layers, allowed are 0 to " +
               std::to_string(n_layers - 1)};
}

}  // namespace kvasir
