#include "app/calibration_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "select/full_layers.h"

namespace kvasir::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Error cannot_write(const std::string& path, const std::string& why) {
  return {"cannot write " + path + ": " + why + "; --out FILE writes it elsewhere"};
}

// Ascending whole numbers from 0 on, or nothing.
std::vector<int32_t> layers_of(const Json& list) {
  std::vector<int32_t> layers;
  if (!list.is_array()) return {};
  for (const Json& one : list) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() > INT32_MAX) return {};
    const auto layer = one.get<int32_t>();
    if (layers.empty() ? layer != 0 : layer <= layers.back()) return {};
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

std::vector<int32_t> selectable_layers(const ModelInfo& model) {
  std::vector<int32_t> layers;
  for (int32_t il = 0; il < model.n_layers(); ++il) {
    const LayerGeometry& layer = model.layers[static_cast<size_t>(il)];
    if (layer.n_kv_heads > 0 && layer.window == 0) layers.push_back(il);
  }
  return layers;
}

std::string calibration_path(const std::string& model_path) { return model_path + ".kvasir.json"; }

Result<void> check_calibration_target(const std::string& path, bool replace) {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored)) && !replace) {
    return Error{path + " is there already: --force replaces it, --out FILE writes another"};
  }
  if (fs::is_directory(path, ignored)) return cannot_write(path, "it is a folder");
  const std::string probe = path + ".new";
  errno = 0;
  std::ofstream out(probe);
  if (!out) return cannot_write(path, std::strerror(errno));
  out.close();
  fs::remove(probe, ignored);
  return {};
}

Result<void> write_calibration(const std::string& path, const Calibration& calibration,
                               bool replace) {
  if (auto checked = check_calibration_target(path, replace); !checked) return checked;
  const nlohmann::ordered_json json = {{"kvasir", KVASIR_VERSION},
                                       {"model", calibration.model},
                                       {"model_bytes", calibration.model_bytes},
                                       {"full_layers", calibration.full_layers},
                                       {"score", calibration.score},
                                       {"text", calibration.text},
                                       {"tokens", calibration.tokens}};
  const std::string fresh = path + ".new";
  errno = 0;
  std::ofstream out(fresh, std::ios::binary);
  out << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  out.close();
  std::error_code error;
  if (out) fs::rename(fresh, path, error);
  if (out && !error) return {};
  const std::string why = error ? error.message() : std::strerror(errno);
  fs::remove(fresh, error);
  return cannot_write(path, why);
}

Result<std::vector<int32_t>> read_full_layers(const std::string& path, const ModelInfo& model) {
  const auto refuse = [&](const std::string& why) {
    return Error{path + ": " + why +
                 "; make it anew with `kvasir calibrate --force`, or give "
                 "--kv-full-layers"};
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse(std::string("cannot be read: ") + std::strerror(errno));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("not a JSON object");
  const Json bytes = json.value("model_bytes", Json());
  if (!bytes.is_number_unsigned() || bytes.get<int64_t>() != model.file_bytes) {
    return refuse("made for a model of model_bytes " + bytes.dump() + ", this one has " +
                  std::to_string(model.file_bytes));
  }
  const Json list = json.value("full_layers", Json());
  std::vector<int32_t> layers = layers_of(list);
  const auto n_layers = static_cast<int32_t>(selectable_layers(model).size());
  if (layers.empty() || layers.back() >= n_layers) {
    return refuse("full_layers " + list.dump() + ", allowed are ascending numbers from 0 to " +
                  std::to_string(n_layers - 1) + ", 0 among them");
  }
  return layers;
}

Result<std::string> take_calibration(const std::vector<std::string>& model_paths,
                                     const ModelInfo& model, CacheOptions& options) {
  if (options.select != "omnikv" || options.select_params.full_layers) return std::string();
  std::string path;
  for (const std::string& one : model_paths) {
    std::error_code ignored;
    if (path.empty() && fs::exists(calibration_path(one), ignored)) path = calibration_path(one);
  }
  if (path.empty()) return std::string();
  if (model_paths.size() > 1) {
    return path + " is not read, as there are several models; --kv-full-layers says which layers";
  }
  auto layers = read_full_layers(path, model);
  if (!layers) return Error{layers.error()};
  options.select_params.full_layers = layers.value();
  return "--kv-full-layers " + layer_list(layers.value()) + ", from " + path;
}

}  // namespace kvasir::app
