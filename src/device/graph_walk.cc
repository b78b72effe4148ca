#include "device/graph_walk.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace kvasir::device {
namespace {

constexpr size_t kMaxVisited = 4096;  // nodes of a search; a layer has a few dozen
constexpr int kMaxTail = 6;           // operations that may be chained on the head

// Breadth first, so that the nearest match wins.
template <typename Match>
ggml_tensor* search_behind(ggml_tensor* from, Match match) {
  std::vector<ggml_tensor*> queue{from};
  std::unordered_set<const ggml_tensor*> seen{from};
  for (size_t next = 0; next < queue.size() && queue.size() < kMaxVisited; ++next) {
    ggml_tensor* node = queue[next];
    if (match(node)) return node;
    for (ggml_tensor* source : node->src) {
      if (source != nullptr && seen.insert(source).second) queue.push_back(source);
    }
    if (node->view_src != nullptr && seen.insert(node->view_src).second) {
      queue.push_back(node->view_src);
    }
  }
  return nullptr;
}

bool is_head_product(const ggml_tensor* node) {
  if (node->op != GGML_OP_MUL_MAT || node->src[0] == nullptr) return false;
  const std::string_view weight = node->src[0]->name;
  return weight == "output.weight" || weight == "token_embd.weight";
}

}  // namespace

std::optional<CacheName> parse_cache_name(const char* name) {
  const std::string_view text = name;
  const bool is_k = text.starts_with("cache_k_l");
  if (!is_k && !text.starts_with("cache_v_l")) return std::nullopt;
  const std::string_view digits = text.substr(9);
  int32_t layer = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (error != std::errc{} || end != digits.data() + digits.size() || layer < 0) {
    return std::nullopt;
  }
  return CacheName{is_k, layer};
}

const ggml_tensor* root_of(const ggml_tensor* tensor) {
  while (tensor->view_src != nullptr) tensor = tensor->view_src;
  return tensor;
}

bool is_view_op(const ggml_tensor* node) {
  switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_RESHAPE:
    case GGML_OP_TRANSPOSE:
      return true;
    default:
      return false;
  }
}

ggml_tensor* find_input(ggml_tensor* node, const char* name) {
  return search_behind(node, [name](const ggml_tensor* t) {
    return (t->flags & GGML_TENSOR_FLAG_INPUT) != 0 && std::strcmp(t->name, name) == 0;
  });
}

const ggml_tensor* find_rope(const ggml_tensor* set_rows) {
  const ggml_tensor* node = set_rows->src[0];
  while (node != nullptr) {
    if (node->op == GGML_OP_ROPE) return node;
    if (!is_view_op(node) && node->op != GGML_OP_CONT) return nullptr;
    node = node->src[0];
  }
  return nullptr;
}

bool has_rope(ggml_tensor* set_rows) {
  return search_behind(set_rows->src[0],
                       [](const ggml_tensor* t) { return t->op == GGML_OP_ROPE; }) != nullptr;
}

Result<RopeSpec> rope_spec(const ggml_tensor* rope) {
  int32_t ints[16];
  std::memcpy(ints, rope->op_params, sizeof(ints));
  const int32_t n_dims = ints[1];
  const int32_t mode = ints[2];
  const int32_t n_ctx_orig = ints[4];
  float floats[6];  // freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow
  std::memcpy(floats, rope->op_params + 5, sizeof(floats));
  if ((mode & GGML_ROPE_TYPE_MROPE) != 0) {
    return Error{"--kv-positions cache is not available for a model with M-RoPE: use original"};
  }
  RopeSpec spec;
  spec.neox = (mode & GGML_ROPE_TYPE_NEOX) != 0;
  spec.offset = ints[15];
  float ramp_range[2];
  ggml_rope_yarn_corr_dims(n_dims, n_ctx_orig, floats[0], floats[4], floats[5], ramp_range);
  const ggml_tensor* factors = rope->src[2];
  for (int32_t i = 0; i < n_dims / 2; ++i) {
    const double factor =
        factors == nullptr ? 1.0 : static_cast<double>(static_cast<const float*>(factors->data)[i]);
    const double extrapolated = std::pow(double{floats[0]}, -2.0 * i / n_dims) / factor;
    const double interpolated = double{floats[1]} * extrapolated;
    double frequency = interpolated;
    if (floats[2] != 0) {  // YaRN (arXiv 2309.00071): a ramp over the channels mixes the two
      const double position =
          (i - double{ramp_range[0]}) / std::fmax(0.001, double{ramp_range[1]} - ramp_range[0]);
      const double mix = (1 - std::fmin(1.0, std::fmax(0.0, position))) * double{floats[2]};
      frequency = interpolated * (1 - mix) + extrapolated * mix;
    }
    spec.frequencies.push_back(frequency);
  }
  return spec;
}

bool is_head(const ggml_tensor* node) {
  if (node->name[0] == '\0') return false;  // a probe at load time, not a node of a graph
  for (int depth = 0; node != nullptr && depth < kMaxTail; ++depth) {
    if (is_head_product(node)) return true;
    switch (node->op) {
      case GGML_OP_SCALE:
      case GGML_OP_UNARY:
      case GGML_OP_ADD:
      case GGML_OP_MUL:
        node = node->src[0];
        break;
      default:
        return false;
    }
  }
  return false;
}

bool is_logits(const ggml_tensor* node) {
  return std::strcmp(node->name, "result_output") == 0 && node->type == GGML_TYPE_F32;
}

}  // namespace kvasir::device
