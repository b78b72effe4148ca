#include "eval/run/methods.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "cache/format_spec.h"
#include "format/row_codec.h"
#include "policy/policy.h"

namespace kvasir::eval {
namespace {

constexpr int32_t kMostTokens = 1 << 24;
constexpr int32_t kMostSteps = 1 << 14;    // that are reckoned for a mean
constexpr Pyramid kPaperPyramid{0.5, 96};  // CONF-KV-L's

std::string meta_text(const llama_model* model, const std::string& key) {
  char text[128] = "";
  llama_model_meta_val_str(model, key.c_str(), text, sizeof(text));
  return text;
}

// A number of the model's architecture, `missing` where it has none.
int32_t meta_number(const llama_model* model, const std::string& key, int32_t missing) {
  std::string full = meta_text(model, "general.architecture");
  full.append(".").append(key);
  const std::string text = meta_text(model, full);
  const long value = std::strtol(text.c_str(), nullptr, 10);
  return value > 0 ? static_cast<int32_t>(value) : missing;
}

// Tokens that a layer keeps when the model is sure at each step, mean over the layers and over
// `budget` steps: a policy that gives up many tokens at once holds less than its budget.
double sure_tokens(const Policy& policy, int32_t budget, const RowGeometry& geometry) {
  Confidence sure;
  sure.c = 1;
  sure.p1 = 1;
  sure.valid = true;
  const int32_t steps = std::min(2 * std::max(budget, 1), kMostSteps);
  double sum = 0;
  for (int32_t layer = 0; layer < geometry.n_layers; ++layer) {
    int32_t live = kMostTokens;  // a long prompt
    for (int32_t step = 0; step < 2 * steps; ++step) {
      const StepState state{true, &sure, step, kMostTokens};
      live = std::min(live, policy.budget->tokens(state, {layer, geometry.n_layers, live}));
      if (step >= steps) sum += live;
      ++live;
    }
  }
  return sum / geometry.n_layers / steps;
}

bool is_f16(const RowFormat& format) { return format.k == nullptr && format.v == nullptr; }

// The most tokens that fit into `bytes`; 0 if not even one does.
Result<int32_t> tokens_within(const CacheOptions& options, const RowGeometry& geometry,
                              double bytes) {
  int32_t fits = 0;
  for (int32_t above = kMostTokens; above - fits > 1;) {
    const int32_t middle = fits + (above - fits) / 2;
    auto found = layer_bytes(options, geometry, middle);
    if (!found) return Error{found.error()};
    (found.value() <= bytes ? fits : above) = middle;
  }
  return fits;
}

// Sets --kv-budget so that `options` take `bytes` a layer.
Result<void> fit_budget(CacheOptions& options, const RowGeometry& geometry, double bytes) {
  auto wanted = tokens_within(options, geometry, bytes);
  if (!wanted) return Error{wanted.error()};
  // Tried from above: what is enough for a policy may be refused while it is too small.
  int32_t budget = 2 * wanted.value();
  // A policy that keeps less than its budget (half of it when sure, or after it has given up many
  // tokens at once) gets more.
  for (int round = 0; round < 4; ++round) {
    options.params.budget = budget;
    auto policy = policy_of(options);
    if (!policy) return Error{policy.error()};
    const double kept = sure_tokens(policy.value(), budget, geometry);
    if (kept < 1 || kept >= kMostTokens) break;
    budget = static_cast<int32_t>(std::lround(budget * (wanted.value() / kept)));
  }
  options.params.budget = budget;
  return {};
}

// A policy may be asked for its state only with a budget that it accepts.
CacheOptions some_budget(const CacheOptions& options) {
  CacheOptions some = options;
  some.params.budget = kMostTokens;
  return some;
}

class MethodList {
 public:
  MethodList(int32_t n, const RowGeometry& geometry, const CacheOptions& base)
      : n_(n), geometry_(geometry), base_(base) {}

  Result<std::vector<Setting>> make() {
    auto bytes = layer_bytes(with("window", "f16"), geometry_, n_);
    if (!bytes) return Error{bytes.error()};
    bytes_ = bytes.value();
    for (const std::string_view name : policy_names()) {
      const CacheOptions options = with(name, "f16");
      if (options.evicts()) add(std::string(name), options);
    }
    for (const RowFormat& format : row_formats()) {
      if (is_f16(format)) continue;
      add(std::string(format.name), with("window", format.name));
    }
    for (const char* together : {"residual", "latent"}) add(together, with("window", together));
    add_papers();
    if (!error_.empty()) return Error{error_};
    return std::move(settings_);
  }

 private:
  CacheOptions with(std::string_view policy, std::string_view format) const {
    CacheOptions options = base_;
    options.policy = policy;
    options.format = format;
    // Flags that mean something with a compressed format only.
    if (!options.demotes()) options.recent = CacheOptions{}.recent;
    return options;
  }

  // The rows of the paper that join a policy and a format.
  void add_papers() {
    const std::string name = "conf, int8-channel";
    add(name, with("conf", "int8-channel"));
    if (!error_.empty()) return;
    Setting pyramid = settings_.back();
    pyramid.name.append(", pyramid");
    pyramid.options.params.pyramid = kPaperPyramid;
    keep(std::move(pyramid));
  }

  void add(const std::string& name, CacheOptions options) {
    auto fitted = fit_budget(options, geometry_, bytes_);
    if (!fitted) return fail(name, fitted.error());
    keep({name, std::move(options)});
  }

  void keep(Setting setting) {
    auto valid = validate(setting.options);
    if (!valid) return fail(setting.name, valid.error());
    settings_.push_back(std::move(setting));
  }

  void fail(const std::string& name, const std::string& reason) {
    if (!error_.empty()) return;
    error_ = "--methods ";
    error_.append(std::to_string(n_)).append(", setting '").append(name).append("': ");
    error_.append(reason);
  }

  int32_t n_;
  RowGeometry geometry_;
  const CacheOptions& base_;
  double bytes_ = 0;
  std::vector<Setting> settings_;
  std::string error_;
};

}  // namespace

RowGeometry row_geometry(const llama_model* model) {
  const int32_t n_heads = std::max(1, llama_model_n_head(model));
  const int32_t width = llama_model_n_embd(model) / n_heads;
  return {std::max(1, llama_model_n_layer(model)), std::max(1, llama_model_n_head_kv(model)),
          meta_number(model, "attention.key_length", width),
          meta_number(model, "attention.value_length", width)};
}

Result<double> layer_bytes(const CacheOptions& options, const RowGeometry& geometry,
                           double tokens) {
  auto policy = policy_of(options.params.budget == 0 ? some_budget(options) : options);
  if (!policy) return Error{policy.error()};
  auto format = parse_format(options.format);
  if (!format) return Error{format.error()};
  const RowCodecs codecs = format.value().inner;
  const auto row = [&](const RowCodecs& of) {
    return demoted_token_bytes(of, options.residual, options.rank_percent,
                               {geometry.n_kv_heads, geometry.head_dim_k, geometry.head_dim_v});
  };
  const int32_t n_state = policy.value().ranker == nullptr ? 0 : policy.value().ranker->n_state();
  double f16 = tokens;
  if (codecs.demotes()) {
    const double waiting = (codecs.unit() - 1) / 2.0;  // rows until a block is full, mean
    f16 = std::min(tokens, policy.value().sinks + options.recent + waiting);
  }
  const double metadata = 2.0 * sizeof(int32_t) + double{sizeof(float)} * n_state;
  return f16 * row(RowCodecs{}) + (tokens - f16) * row(codecs) + tokens * metadata;
}

Result<std::vector<Setting>> method_settings(int32_t n, const RowGeometry& geometry,
                                             const CacheOptions& base) {
  return MethodList(n, geometry, base).make();
}

Result<std::vector<Setting>> format_settings(const CacheOptions& base) {
  std::vector<Setting> settings;
  for (const RowFormat& format : row_formats()) {
    if (is_f16(format)) continue;
    Setting setting{std::string(format.name), base};
    setting.options.format = format.name;
    auto valid = validate(setting.options);
    if (!valid) return Error{"--formats, setting '" + setting.name + "': " + valid.error()};
    settings.push_back(std::move(setting));
  }
  for (const char* together : {"residual", "latent"}) {
    Setting setting{together, base};
    setting.options.format = together;
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace kvasir::eval
