#include "eval/neighbours/residuals.h"

#include <algorithm>
#include <cmath>

namespace kvasir::eval {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

// Sums of squares of a - b, of each half and of both; b null: of a.
ByHalf squares(const TokenVectors& vectors, const float* a, const float* b) {
  ByHalf sums;
  for (int32_t d = 0; d < vectors.width(); ++d) {
    const double x = static_cast<double>(a[d]) - (b == nullptr ? 0.0 : static_cast<double>(b[d]));
    (d < vectors.width_k ? sums.k : sums.v) += x * x;
  }
  sums.whole = sums.k + sums.v;
  return sums;
}

// The mean of ratios of lengths, given squared ones.
class MeanRatio {
 public:
  void add(double part, double of) {
    if (of <= 0) return;
    sum_ += std::sqrt(part / of);
    ++n_;
  }
  double value() const { return n_ == 0 ? 0 : sum_ / n_; }

 private:
  double sum_ = 0;
  int32_t n_ = 0;
};

double share_of_k(const ByHalf& sums) { return sums.whole <= 0 ? 0 : sums.k / sums.whole; }

void add(ByHalf& sums, const ByHalf& more) {
  sums.whole += more.whole;
  sums.k += more.k;
  sums.v += more.v;
}

}  // namespace

std::vector<float> mean_references(const TokenVectors& vectors, const Chosen& chosen) {
  const size_t n_others = chosen.tokens.size() / z(chosen.k);
  std::vector<float> means;
  means.reserve(n_others * z(vectors.width()));
  std::vector<double> sum(z(vectors.width()));
  for (size_t i = 0; i < n_others; ++i) {
    std::fill(sum.begin(), sum.end(), 0.0);
    int32_t n = 0;
    for (const int32_t token : chosen.of(i)) {
      if (token < 0) continue;
      ++n;
      for (size_t d = 0; d < sum.size(); ++d) sum[d] += static_cast<double>(vectors.at(token)[d]);
    }
    for (const double x : sum) means.push_back(static_cast<float>(x / std::max(n, 1)));
  }
  return means;
}

std::vector<float> channel_means(const TokenVectors& vectors, size_t n_others) {
  std::vector<double> sum(z(vectors.width()));
  for (int32_t token = 0; token < vectors.n; ++token) {
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += static_cast<double>(vectors.at(token)[d]);
  }
  std::vector<float> means(n_others * sum.size());
  for (size_t i = 0; i < means.size(); ++i) {
    means[i] = static_cast<float>(sum[i % sum.size()] / std::max(vectors.n, 1));
  }
  return means;
}

ByHalf length_ratio(const TokenVectors& vectors, const Parted& parted,
                    const std::vector<float>& means) {
  MeanRatio whole, k, v;
  for (size_t i = 0; i < parted.others.size(); ++i) {
    const float* x = vectors.at(parted.others[i]);
    const ByHalf of = squares(vectors, x, nullptr);
    const ByHalf left = squares(vectors, x, means.data() + i * z(vectors.width()));
    whole.add(left.whole, of.whole);
    k.add(left.k, of.k);
    v.add(left.v, of.v);
  }
  return {whole.value(), k.value(), v.value()};
}

double k_share_of_lengths(const TokenVectors& vectors, const Parted& parted) {
  ByHalf sums;
  for (const int32_t token : parted.others) add(sums, squares(vectors, vectors.at(token), nullptr));
  return share_of_k(sums);
}

double k_share_of_distances(const TokenVectors& vectors, const Parted& parted,
                            const Chosen& chosen) {
  ByHalf sums;
  for (size_t i = 0; i < parted.others.size(); ++i) {
    for (const int32_t token : chosen.of(i)) {
      if (token < 0) continue;
      add(sums, squares(vectors, vectors.at(parted.others[i]), vectors.at(token)));
    }
  }
  return share_of_k(sums);
}

}  // namespace kvasir::eval
