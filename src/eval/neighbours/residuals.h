// What is left of a token once its reference is taken away: how long it is, and which half decides
// (DeltaKV, arXiv 2602.08005: residuals have a smaller norm than the tokens). Pure.
#pragma once

#include <vector>

#include "eval/neighbours/references.h"

namespace kvasir::eval {

/// One number for whole vectors, one for each half.
struct ByHalf {
  double whole = 0, k = 0, v = 0;
};

/// The reference of each of the others: the mean of what it chose, [others, width].
std::vector<float> mean_references(const TokenVectors& vectors, const Chosen& chosen);
/// The mean of all tokens in the place of each reference: what taking channel means away gives.
std::vector<float> channel_means(const TokenVectors& vectors, size_t n_others);

/// Mean over the others of |x - m| / |x|, each half by its own length; x of length 0 is left out.
ByHalf length_ratio(const TokenVectors& vectors, const Parted& parted,
                    const std::vector<float>& means);

/// Share of K in sums of squares over the others: of x itself, and of what separates x from each
/// that it chose. Where it is far from a half, that half alone decides who is near.
double k_share_of_lengths(const TokenVectors& vectors, const Parted& parted);
double k_share_of_distances(const TokenVectors& vectors, const Parted& parted,
                            const Chosen& chosen);

}  // namespace kvasir::eval
