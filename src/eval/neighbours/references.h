// Which tokens stand for themselves, and which of them another token is set against (DeltaKV, arXiv
// 2602.08005): the first tokens and every s-th one are references, and a token takes the k of them
// at or before itself that are nearest to it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "eval/neighbours/token_vectors.h"
#include "format/residual_codec.h"
#include "kernels/kernels.h"

namespace kvasir::eval {

struct ReferencePlan {
  int32_t n_sinks = 4;
  int32_t stride = 10;     ///< s
  int32_t neighbours = 4;  ///< k
};

/// The tokens of a text, parted; both ascend.
struct Parted {
  std::vector<int32_t> references;
  std::vector<int32_t> others;
  std::vector<int32_t> n_visible;  ///< [others] references before each
};

/// References are tokens [0, n_sinks) and n_sinks, n_sinks + s, ...: a text read as one block.
Parted part_tokens(const ReferencePlan& plan, int32_t n_tokens);

/// What each of the others is set against.
struct Chosen {
  int32_t k = 0;
  std::vector<int32_t> tokens;  ///< [others, k] best first; -1 where fewer are visible
  std::span<const int32_t> of(size_t other) const {
    return std::span(tokens).subspan(other * static_cast<size_t>(k), static_cast<size_t>(k));
  }
};

/// By squared L2 of the whole vectors.
Chosen nearest_references(const TokenVectors& vectors, const Parted& parted, int32_t k,
                          const KvKernels& kernels, ParallelFor& parallel);
/// The last reference before each token: that of its own group of s.
Chosen local_references(const Parted& parted);
/// k different ones of all that are visible.
Chosen random_references(const Parted& parted, int32_t k, uint64_t seed);

/// The nearest of all earlier tokens, by squared L2; -1 for the first token.
std::vector<int32_t> nearest_earlier(const TokenVectors& vectors, const KvKernels& kernels,
                                     ParallelFor& parallel);

}  // namespace kvasir::eval
