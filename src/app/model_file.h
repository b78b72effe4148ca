// What must be known of a GGUF file before llama.cpp opens it: that it is whole, and the geometry
// of its attention.
//
// Reads metadata only, never tensor data, and judges no model: one that llama.cpp cannot run is
// still described. Where llama.cpp compiles a layer pattern in instead of reading it, the pattern
// is in the table of model_file.cc. Not for use from several threads at once: ggml's log is
// silenced meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvasir::app {

/// Attention of one layer.
struct LayerGeometry {
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;  ///< 0: no K/V rows of its own (recurrent, or shared with another layer)
  int32_t head_dim_k = 0;
  int32_t head_dim_v = 0;
  int32_t window = 0;  ///< sliding window in tokens; 0: attends to everything

  /// f16 bytes of one token's K and V rows.
  int64_t f16_bytes_per_token() const;
};

struct ModelInfo {
  std::string architecture;           ///< "llama", "gemma3", ...
  std::string name;                   ///< general.name, or empty
  int64_t file_bytes = 0;             ///< all parts of a split model
  int32_t context_length = 0;         ///< trained context in tokens; 0: not given
  int32_t yarn_orig_ctx = 0;          ///< original context of a YaRN model; 0: no YaRN
  bool learned_positions = false;     ///< a table of position embeddings: no token beyond it
  bool latent = false;                ///< MLA: one latent row a token, no V cache
  bool windows_known = true;          ///< false: has a sliding window, but not which layers
  std::vector<LayerGeometry> layers;  ///< [n_layers]

  int32_t n_layers() const { return static_cast<int32_t>(layers.size()); }
  /// Layers with K/V rows of their own.
  int32_t n_kv_layers() const;
};

/// Reads the metadata of `path` and checks that the data of every tensor lies within the file, in
/// all parts of a split model. Fails with one line: not there, not a GGUF file, unknown version,
/// unreadable metadata, truncated.
Result<ModelInfo> read_model(const std::string& path);

}  // namespace kvasir::app
