#include "eval/neighbours/references.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "cache/reference_search.h"

namespace kvasir::eval {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

// The k best of `candidates` for each of `rows`; row r may choose among the first n_visible[r].
std::vector<int32_t> search(const TokenVectors& rows, const TokenVectors& candidates,
                            std::span<const int32_t> n_visible, int32_t k, const KvKernels& kernels,
                            ParallelFor& parallel) {
  std::vector<float> norms(z(candidates.n));
  squared_lengths(candidates.x.data(), candidates.n, candidates.width(), norms.data());
  std::vector<float> scores(z(rows.n) * z(k));
  std::vector<int32_t> found(scores.size());
  const NearestSet nearest{rows.n, k, scores.data(), found.data()};
  nearest.reset();
  const SearchTile tile{
      rows.x.data(), candidates.x.data(), norms.data(), candidates.n, rows.width(), 0, n_visible};
  search_tile(tile, kernels, parallel, nearest);
  return found;
}

TokenVectors pick(const TokenVectors& vectors, std::span<const int32_t> tokens) {
  TokenVectors picked{static_cast<int32_t>(tokens.size()), vectors.width_k, vectors.width_v, {}};
  picked.x.reserve(tokens.size() * z(vectors.width()));
  for (const int32_t token : tokens) {
    picked.x.insert(picked.x.end(), vectors.at(token), vectors.at(token) + vectors.width());
  }
  return picked;
}

}  // namespace

Parted part_tokens(const ReferencePlan& plan, int32_t n_tokens) {
  Parted parted;
  for (int32_t token = 0; token < n_tokens; ++token) {
    if (token < plan.n_sinks || (token - plan.n_sinks) % plan.stride == 0) {
      parted.references.push_back(token);
    } else {
      parted.others.push_back(token);
      parted.n_visible.push_back(static_cast<int32_t>(parted.references.size()));
    }
  }
  return parted;
}

Chosen nearest_references(const TokenVectors& vectors, const Parted& parted, int32_t k,
                          const KvKernels& kernels, ParallelFor& parallel) {
  Chosen chosen{k, search(pick(vectors, parted.others), pick(vectors, parted.references),
                          parted.n_visible, k, kernels, parallel)};
  for (int32_t& token : chosen.tokens) {
    if (token >= 0) token = parted.references[z(token)];
  }
  return chosen;
}

Chosen local_references(const Parted& parted) {
  Chosen chosen{1, {}};
  for (const int32_t n : parted.n_visible) chosen.tokens.push_back(parted.references[z(n - 1)]);
  return chosen;
}

Chosen random_references(const Parted& parted, int32_t k, uint64_t seed) {
  std::mt19937_64 random(seed);
  Chosen chosen{k, std::vector<int32_t>(parted.others.size() * z(k), -1)};
  for (size_t i = 0; i < parted.others.size(); ++i) {
    const auto n = static_cast<uint64_t>(parted.n_visible[i]);
    const auto first = chosen.tokens.begin() + static_cast<ptrdiff_t>(i) * k;
    auto last = first;
    while (last < first + std::min(int64_t{k}, static_cast<int64_t>(n))) {
      const int32_t token = parted.references[z(static_cast<int64_t>(random() % n))];
      if (std::find(first, last, token) == last) *last++ = token;
    }
  }
  return chosen;
}

std::vector<int32_t> nearest_earlier(const TokenVectors& vectors, const KvKernels& kernels,
                                     ParallelFor& parallel) {
  std::vector<int32_t> n_visible(z(vectors.n));
  std::iota(n_visible.begin(), n_visible.end(), 0);
  return search(vectors, vectors, n_visible, 1, kernels, parallel);
}

}  // namespace kvasir::eval
