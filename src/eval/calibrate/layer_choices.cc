#include "eval/calibrate/layer_choices.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <string>
#include <string_view>

#include "select/top_k.h"

namespace kvasir::eval {
namespace {

constexpr std::string_view kAttention = "kq_soft_max-";  // and the layer; llama.cpp's name

size_t z(int64_t n) { return static_cast<size_t>(n); }

// Reads the attention of a decode step out of llama.cpp's graph, layer by layer.
class Watch {
 public:
  explicit Watch(const ChoicePlan& plan) : plan_(plan), chosen_(plan.layers.size()) {}

  // The next graph decodes the token at `position`.
  void begin(int32_t position) {
    first_ = kChoiceSinks;
    n_ = position + 1 - kChoiceRecent - first_;
    for (auto& layer : chosen_) layer.clear();
    watching_ = true;
  }

  // What the layers chose. Fails where a layer's attention was not in the graph.
  Result<std::span<const std::vector<int32_t>>> end() {
    watching_ = false;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (!chosen_[i].empty()) continue;
      return Error{"layer " + std::to_string(plan_.layers[i]) +
                   ": this model's attention does not show its weights, expected " +
                   std::string(kAttention) + std::to_string(plan_.layers[i]) +
                   " of at least as many cells as tokens"};
    }
    return std::span<const std::vector<int32_t>>(chosen_);
  }

  static bool on_node(ggml_tensor* node, bool ask, void* watch) {
    return static_cast<Watch*>(watch)->take(*node, ask);
  }

 private:
  // Asked: whether the node is wanted. Else it is computed; true: go on.
  bool take(const ggml_tensor& node, bool ask) {
    if (!watching_) return !ask;
    const auto layer = layer_of(node);
    if (ask) return layer != plan_.layers.end();
    if (layer == plan_.layers.end()) return true;
    if (node.type != GGML_TYPE_F32 || node.ne[1] != 1 || node.ne[0] < first_ + n_) return true;
    probabilities_.resize(z(ggml_nelements(&node)));
    ggml_backend_tensor_get(&node, probabilities_.data(), 0, ggml_nbytes(&node));
    chosen_[z(layer - plan_.layers.begin())] =
        best_candidates(probabilities_, node.ne[0], first_, n_, plan_.keep.of(n_));
    return true;
  }

  std::vector<int32_t>::const_iterator layer_of(const ggml_tensor& node) const {
    const std::string_view name = node.name;
    if (!name.starts_with(kAttention)) return plan_.layers.end();
    const int32_t number = std::atoi(node.name + kAttention.size());
    const auto at = std::lower_bound(plan_.layers.begin(), plan_.layers.end(), number);
    return at != plan_.layers.end() && *at == number ? at : plan_.layers.end();
  }

  const ChoicePlan& plan_;
  bool watching_ = false;
  int32_t first_ = 0, n_ = 0;  // candidates
  std::vector<float> probabilities_;
  std::vector<std::vector<int32_t>> chosen_;  // [layers of the plan]
};

}  // namespace

std::vector<int32_t> best_candidates(std::span<const float> probabilities, int64_t row,
                                     int32_t first, int32_t n, int32_t k) {
  assert(first >= 0 && n >= 0 && first + n <= row);
  std::vector<float> scores(z(n), 0.0F);
  for (size_t head = 0; head + z(row) <= probabilities.size(); head += z(row)) {
    const auto own = probabilities.subspan(head + z(first), z(n));
    double sum = 0;
    for (const float p : own) sum += p;
    if (!(sum > 0)) continue;  // a head that sees no candidate
    for (size_t i = 0; i < own.size(); ++i) {
      scores[i] = std::max(scores[i], static_cast<float>(own[i] / sum));
    }
  }
  std::vector<int32_t> chosen;
  top_k(scores, k, chosen);
  return chosen;
}

int32_t ChoicePlan::position(int32_t i) const {
  const auto n = static_cast<int64_t>(tokens.size());
  return static_cast<int32_t>(n / 2 + (n - n / 2) * (i + 1) / n_points - 1);
}

Result<LayerOverlap> overlap_of_choices(const std::shared_ptr<llama_model>& model,
                                        const ChoicePlan& plan,
                                        const std::function<void()>& on_point) {
  Watch watch(plan);
  SessionParams params;
  params.n_ctx = static_cast<int32_t>(plan.tokens.size());
  params.n_threads = plan.n_threads;
  params.flash_attention = LLAMA_FLASH_ATTN_TYPE_DISABLED;  // else weights are never written down
  params.on_node = Watch::on_node;
  params.on_node_data = &watch;
  auto session = Session::open(model, params);
  if (!session) return Error{session.error()};
  const std::span<const llama_token> tokens = plan.tokens;
  LayerOverlap overlap(static_cast<int32_t>(plan.layers.size()));
  int32_t done = 0;
  for (int32_t i = 0; i < plan.n_points; ++i) {
    const int32_t position = plan.position(i);
    auto read = session.value().fill(tokens.subspan(z(done), z(position - done)), done);
    if (!read) return Error{read.error()};
    watch.begin(position);
    read = session.value().decode(tokens.subspan(z(position), 1), position, Outputs::kLast);
    if (!read) return Error{read.error()};
    const auto chosen = watch.end();
    if (!chosen) return Error{chosen.error()};
    overlap.add(chosen.value());
    done = position + 1;
    on_point();
  }
  return overlap;
}

}  // namespace kvasir::eval
