// dense: every layer of every step reads all.
#include "select/full_layers.h"
#include "select/selector.h"

namespace kvasir {
namespace {

class DenseSelector final : public Selector {
 public:
  std::string_view name() const override { return "dense"; }
  bool selects() const override { return false; }
  Result<void> check_layers(int32_t /*n_layers*/) const override { return {}; }
  Role role(int32_t /*layer*/, int32_t /*n_layers*/) const override { return Role::kDense; }
  int32_t n_chosen(int32_t n) const override { return n; }
  void choose(const SelectInput& /*input*/, const KvKernels& /*kernels*/, ParallelFor& /*parallel*/,
              SelectScratch& /*scratch*/, std::vector<int32_t>& chosen) const override {
    chosen.clear();
  }
};

}  // namespace

Result<std::unique_ptr<Selector>> make_selector_dense(const SelectParams& params) {
  const auto refuse = [](const std::string& flag) {
    return Error{flag +
                 ": a step reads every stored token (--kv-select dense); choose omnikv, "
                 "quest, sketch or sketch16"};
  };
  if (params.keep) return refuse("--kv-keep");
  if (params.full_layers) return refuse("--kv-full-layers " + layer_list(*params.full_layers));
  return std::unique_ptr<Selector>(std::make_unique<DenseSelector>());
}

}  // namespace kvasir
