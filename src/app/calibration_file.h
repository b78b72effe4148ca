// The file that `kvasir calibrate` leaves beside a model, MODEL.kvasir.json: which layers are full
// with --kv-select omnikv.
//
//   {"kvasir":"0.1.0","model":"m.gguf","model_bytes":269,"full_layers":[0,3,7],"score":0.71,
//    "text":"bible","tokens":4096}
//
// No state; prints nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/model_file.h"
#include "base/result.h"
#include "cache/options.h"

namespace kvasir::app {

struct Calibration {
  std::string model;                 ///< name of the file
  int64_t model_bytes = 0;           ///< of all its parts
  std::vector<int32_t> full_layers;  ///< ascending, 0 first
  double score = 0;                  ///< mean overlap of what was chosen, 0 to 1
  std::string text;                  ///< what was read
  int32_t tokens = 0;
};

/// The layers that --kv-full-layers counts, by their numbers in the model: those with rows of their
/// own that read more than a window.
std::vector<int32_t> selectable_layers(const ModelInfo& model);

/// Where the file of a model lies.
std::string calibration_path(const std::string& model_path);

/// Whether write_calibration would work, as far as can be known before. Fails with one line.
Result<void> check_calibration_target(const std::string& path, bool replace);

/// Writes the file whole or not at all. Fails with one line that names the path.
Result<void> write_calibration(const std::string& path, const Calibration& calibration,
                               bool replace);

/// The full layers of the file at `path`. Fails with one line that names it if it is no JSON, lacks
/// something, or is not of this model.
Result<std::vector<int32_t>> read_full_layers(const std::string& path, const ModelInfo& model);

/// Where omnikv is asked for without full layers and the only model has a file beside it, takes its
/// layers into `options`. Gives a line that says so; an empty one where nothing was taken. Fails
/// where read_full_layers does.
Result<std::string> take_calibration(const std::vector<std::string>& model_paths,
                                     const ModelInfo& model, CacheOptions& options);

}  // namespace kvasir::app
