#include "app/model_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "gguf.h"
#include "llama.h"

namespace kvasir::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxLayers = 4096;  // llama.cpp's own limit is below this

struct GgufFree {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
using Gguf = std::unique_ptr<gguf_context, GgufFree>;

// Metadata by key; values of the wrong type count as absent.
class Metadata {
 public:
  Metadata(const gguf_context* context, std::string prefix)
      : context_(context), prefix_(std::move(prefix)) {}

  std::string text(const std::string& key) const {
    const int64_t id = gguf_find_key(context_, key.c_str());
    if (id < 0 || gguf_get_kv_type(context_, id) != GGUF_TYPE_STRING) return {};
    return gguf_get_val_str(context_, id);
  }

  std::optional<int64_t> number(const std::string& key) const {
    const int64_t id = find(key);
    if (id < 0) return std::nullopt;
    const gguf_type type = gguf_get_kv_type(context_, id);
    if (type == GGUF_TYPE_STRING || type == GGUF_TYPE_ARRAY) return std::nullopt;
    return element(type, gguf_get_val_data(context_, id), 0);
  }

  // One value for each of n layers, from an array or from one number for all.
  std::optional<std::vector<int64_t>> per_layer(const std::string& key, size_t n) const {
    if (const auto one = number(key)) return std::vector<int64_t>(n, *one);
    const int64_t id = find(key);
    if (id < 0 || gguf_get_kv_type(context_, id) != GGUF_TYPE_ARRAY) return std::nullopt;
    const gguf_type type = gguf_get_arr_type(context_, id);
    if (type == GGUF_TYPE_STRING || gguf_get_arr_n(context_, id) < n) return std::nullopt;
    std::vector<int64_t> values;
    for (size_t i = 0; i < n; ++i) {
      const auto value = element(type, gguf_get_arr_data(context_, id), i);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return values;
  }

 private:
  int64_t find(const std::string& key) const {
    return gguf_find_key(context_, (prefix_ + key).c_str());
  }

  template <typename T>
  static int64_t load(const void* data, size_t i) {
    T value;
    std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
    return static_cast<int64_t>(value);
  }

  static std::optional<int64_t> element(gguf_type type, const void* data, size_t i) {
    switch (type) {
      case GGUF_TYPE_BOOL:
      case GGUF_TYPE_INT8:
        return load<int8_t>(data, i);
      case GGUF_TYPE_UINT8:
        return load<uint8_t>(data, i);
      case GGUF_TYPE_INT16:
        return load<int16_t>(data, i);
      case GGUF_TYPE_UINT16:
        return load<uint16_t>(data, i);
      case GGUF_TYPE_INT32:
        return load<int32_t>(data, i);
      case GGUF_TYPE_UINT32:
        return load<uint32_t>(data, i);
      case GGUF_TYPE_INT64:
        return load<int64_t>(data, i);
      case GGUF_TYPE_UINT64:
        return load<uint64_t>(data, i);
      default:
        return std::nullopt;
    }
  }

  const gguf_context* context_;
  std::string prefix_;
};

// Sliding-window layers that llama.cpp compiles in: of every `period` layers one is full, the last
// (or, with full_first, the first); period 1 with no key means none is sliding.
struct WindowPattern {
  std::string_view architecture;
  int64_t period;
  bool full_first;
};
constexpr std::array kWindowPatterns = {
    WindowPattern{"gemma2", 2, false},      WindowPattern{"gemma3", 6, false},
    WindowPattern{"gemma3n", 5, false},     WindowPattern{"gemma-embedding", 6, false},
    WindowPattern{"gpt-oss", 2, false},     WindowPattern{"cohere2", 4, false},
    WindowPattern{"cohere2moe", 4, true},   WindowPattern{"llama4", 4, false},
    WindowPattern{"olmo2", 4, false},       WindowPattern{"exaone4", 4, false},
    WindowPattern{"exaone-moe", 4, false},  WindowPattern{"afmoe", 4, false},
    WindowPattern{"plamo3", 8, false},      WindowPattern{"mellum", 4, false},
    WindowPattern{"smallthinker", 4, true}, WindowPattern{"modern-bert", 3, true},
    WindowPattern{"phi3", 1, false},
};

int32_t to_int32(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, 0, INT32_MAX));
}

void set_windows(const Metadata& meta, ModelInfo& info) {
  const int64_t window = meta.number("attention.sliding_window").value_or(0);
  if (window <= 0) return;
  const auto apply = [&](auto is_sliding) {
    for (size_t il = 0; il < info.layers.size(); ++il) {
      if (is_sliding(il)) info.layers[il].window = to_int32(window);
    }
  };
  const std::string key = "attention.sliding_window_pattern";
  const auto* found = std::find_if(kWindowPatterns.begin(), kWindowPatterns.end(),
                                   [&](auto& p) { return p.architecture == info.architecture; });
  const std::optional<int64_t> given = meta.number(key);
  if (!given) {
    if (const auto flags = meta.per_layer(key, info.layers.size())) {
      apply([&](size_t il) { return (*flags)[il] != 0; });
      return;
    }
  }
  if (!given && found == kWindowPatterns.end()) {
    info.windows_known = false;
    return;
  }
  const size_t period = static_cast<size_t>(std::max<int64_t>(given.value_or(found->period), 1));
  const bool full_first = found != kWindowPatterns.end() && found->full_first;
  const size_t full = full_first ? 0 : period - 1;
  apply([&](size_t il) { return il % period != full; });
}

void set_layers(const Metadata& meta, ModelInfo& info) {
  const int64_t n = std::clamp<int64_t>(meta.number("block_count").value_or(0), 0, kMaxLayers);
  info.layers.resize(static_cast<size_t>(n));
  const size_t count = info.layers.size();
  const auto heads =
      meta.per_layer("attention.head_count", count).value_or(std::vector<int64_t>(count, 0));
  const auto kv_heads = meta.per_layer("attention.head_count_kv", count).value_or(heads);
  const int64_t embedding = meta.number("embedding_length").value_or(0);
  const int64_t shared = info.architecture == "gemma3n"
                             ? n - 20
                             : meta.number("attention.shared_kv_layers").value_or(0);
  for (size_t il = 0; il < count; ++il) {
    LayerGeometry& layer = info.layers[il];
    const int64_t from_width = heads[il] > 0 ? embedding / heads[il] : 0;
    layer.n_heads = to_int32(heads[il]);
    layer.n_kv_heads = static_cast<int64_t>(il) < n - shared ? to_int32(kv_heads[il]) : 0;
    layer.head_dim_k = to_int32(meta.number("attention.key_length").value_or(from_width));
    layer.head_dim_v = to_int32(meta.number("attention.value_length").value_or(from_width));
  }
}

ModelInfo describe(const gguf_context* context) {
  const Metadata general(context, "");
  ModelInfo info;
  info.architecture = general.text("general.architecture");
  info.name = general.text("general.name");
  const Metadata meta(context, info.architecture + ".");
  info.context_length = to_int32(meta.number("context_length").value_or(0));
  if (general.text(info.architecture + ".rope.scaling.type") == "yarn") {
    info.yarn_orig_ctx =
        to_int32(meta.number("rope.scaling.original_context_length").value_or(info.context_length));
  }
  info.learned_positions = gguf_find_tensor(context, "position_embd.weight") >= 0;
  info.latent = meta.number("attention.kv_lora_rank").value_or(0) > 0;
  set_layers(meta, info);
  set_windows(meta, info);
  return info;
}

Gguf open_quietly(const std::string& path) {
  ggml_log_callback callback = nullptr;
  void* data = nullptr;
  ggml_log_get(&callback, &data);
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  Gguf context(gguf_init_from_file(path.c_str(), {/*no_alloc =*/true, /*ctx =*/nullptr}));
  ggml_log_set(callback, data);
  return context;
}

// Magic and version by hand, because gguf_init_from_file reports every failure alike.
Result<void> check_header(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) {
    return Error{"model " + path + ": cannot be opened: " + std::strerror(errno)};
  }
  std::array<char, 4> magic{};
  uint32_t version = 0;
  if (std::fread(magic.data(), 1, 4, file.get()) != 4 ||
      std::fread(&version, sizeof(version), 1, file.get()) != 1) {
    return Error{"model " + path + ": shorter than a GGUF header"};
  }
  if (std::memcmp(magic.data(), GGUF_MAGIC, 4) != 0) {
    return Error{"model " + path + ": not a GGUF file (it begins without \"GGUF\")"};
  }
  if (version < 2 || version > GGUF_VERSION) {
    return Error{"model " + path + ": GGUF version " + std::to_string(version) +
                 ", supported are 2 and " + std::to_string(GGUF_VERSION)};
  }
  return {};
}

// Opens one file and checks that its tensors end inside it.
Result<Gguf> open_whole(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return Error{"model " + path + ": no such file"};
  if (!fs::is_regular_file(path, error)) return Error{"model " + path + ": not a file"};
  if (auto header = check_header(path); !header) return Error{header.error()};
  Gguf context = open_quietly(path);
  if (context == nullptr) {
    return Error{"model " + path + ": its GGUF metadata is truncated or damaged"};
  }
  const uint64_t size = fs::file_size(path, error);
  const uint64_t data = gguf_get_data_offset(context.get());
  for (int64_t id = 0; id < gguf_get_n_tensors(context.get()); ++id) {
    const uint64_t begin = gguf_get_tensor_offset(context.get(), id);
    const uint64_t length = gguf_get_tensor_size(context.get(), id);
    if (data > size || begin > size - data || length > size - data - begin) {
      return Error{"model " + path + ": truncated: tensor " +
                   gguf_get_tensor_name(context.get(), id) + " ends at byte " +
                   std::to_string(data + begin + length) + ", the file has " +
                   std::to_string(size)};
    }
  }
  return context;
}

// Paths of the other parts of a split model.
std::vector<std::string> other_parts(const gguf_context* context, const std::string& path) {
  const int32_t n = to_int32(Metadata(context, "").number("split.count").value_or(0));
  std::array<char, 4096> prefix{};
  std::vector<std::string> parts;
  if (n < 2 || llama_split_prefix(prefix.data(), prefix.size(), path.c_str(), 0, n) <= 0) return {};
  for (int32_t i = 1; i < n; ++i) {
    std::array<char, 4096> part{};
    llama_split_path(part.data(), part.size(), prefix.data(), i, n);
    parts.emplace_back(part.data());
  }
  return parts;
}

}  // namespace

int64_t LayerGeometry::f16_bytes_per_token() const {
  return int64_t{2} * n_kv_heads * (int64_t{head_dim_k} + head_dim_v);
}

int32_t ModelInfo::n_kv_layers() const {
  return static_cast<int32_t>(std::count_if(
      layers.begin(), layers.end(), [](const LayerGeometry& l) { return l.n_kv_heads > 0; }));
}

Result<ModelInfo> read_model(const std::string& path) {
  Result<Gguf> first = open_whole(path);
  if (!first) return Error{first.error()};
  ModelInfo info = describe(first.value().get());
  if (info.architecture.empty()) return Error{"model " + path + ": names no architecture"};
  std::error_code error;
  info.file_bytes = static_cast<int64_t>(fs::file_size(path, error));
  for (const std::string& part : other_parts(first.value().get(), path)) {
    const Result<Gguf> opened = open_whole(part);
    if (!opened) return Error{opened.error()};
    info.file_bytes += static_cast<int64_t>(fs::file_size(part, error));
  }
  return info;
}

}  // namespace kvasir::app
