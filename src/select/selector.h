// Which stored tokens a decode step reads (--kv-select): the interface of a method and the
// registry.
//
// Nothing leaves the cache here: what a step does not read stays for the next one. Tokens between
// the sinks and the newest --kv-recent are candidates; the others are always read. A method says
// what part each layer takes, and chooses among the candidates. Knows neither cache nor policy:
// what it is shown are scores and an index of keys, what it gives are numbers of candidates.
// Methods hold no state of their own and are safe in any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "select/key_index.h"

namespace kvasir {

/// --kv-keep: how many candidates are read.
struct Keep {
  int32_t tokens = 0;   ///< N; 0: a share
  double percent = 30;  ///< P%, of the candidates
  /// Of n candidates; at least one, rounded down.
  int32_t of(int32_t n) const;
  bool operator==(const Keep&) const = default;
};

struct SelectParams {
  std::optional<Keep> keep;                         ///< --kv-keep; empty: 30%
  std::optional<std::vector<int32_t>> full_layers;  ///< --kv-full-layers; empty: the method's own
  bool operator==(const SelectParams&) const = default;
};

/// What a layer does in a decode step.
enum class Role {
  kDense,    ///< reads all
  kObserve,  ///< reads all; its scores choose for the layers behind it
  kFollow,   ///< reads what the last observing layer chose
  kChoose,   ///< reads what it chooses itself, from an index of its keys
};

/// Scratch of a choice; grows to what the largest needs and then stays.
struct SelectScratch {
  std::vector<float> scores;   ///< [n]
  std::vector<float> heads;    ///< [n_heads]
  std::vector<int32_t> pages;  ///< that are chosen
  IndexScratch index;
  size_t bytes() const {
    return (scores.capacity() + heads.capacity()) * sizeof(float) +
           pages.capacity() * sizeof(int32_t) + index.bytes();
  }
};

/// What a choice is made from: n candidates, the oldest first.
struct SelectInput {
  int32_t n = 0;
  int32_t n_heads = 0;  ///< query heads
  /// kObserve: the score of candidate i in head h, at logits + h * logits_head + i; -inf: hidden.
  const float* logits = nullptr;
  ptrdiff_t logits_head = 0;
  /// kChoose: an index of the candidates, and the queries.
  const KeyIndex* index = nullptr;
  KeyQueries queries;
};

class Selector {
 public:
  virtual ~Selector() = default;
  /// As it is registered.
  virtual std::string_view name() const = 0;
  /// False: every layer of every step reads all.
  virtual bool selects() const { return true; }
  /// Fails where the layers that were asked for are not those of a cache of n_layers.
  virtual Result<void> check_layers(int32_t n_layers) const = 0;
  /// The part of layer `layer` (by index) of n_layers.
  virtual Role role(int32_t layer, int32_t n_layers) const = 0;
  /// Candidates come in pages of so many consecutive tokens, whole pages only.
  virtual int32_t page_tokens() const { return 1; }
  /// What a layer that chooses for itself keeps of its keys, empty; null: no layer does.
  virtual std::unique_ptr<KeyIndex> make_index() const { return nullptr; }
  /// How many of n candidates choose() takes; n: all, and choose() need not be asked.
  virtual int32_t n_chosen(int32_t n) const = 0;
  /// Chooses n_chosen(input.n) candidates, ascending. Requires: n_chosen(n) < n.
  virtual void choose(const SelectInput& input, const KvKernels& kernels, ParallelFor& parallel,
                      SelectScratch& scratch, std::vector<int32_t>& chosen) const = 0;
};

/// Makes the method registered as `name`. Fails with one line that names the flag, the value and
/// what is allowed.
Result<std::unique_ptr<Selector>> make_selector(std::string_view name, const SelectParams& params);

/// Registered names, in order of registration.
std::vector<std::string_view> selector_names();

}  // namespace kvasir
