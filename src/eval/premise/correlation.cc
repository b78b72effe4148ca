#include "eval/premise/correlation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace kvasir::eval {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double pearson_of(std::span<const double> x, std::span<const double> y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  return xx == 0 || yy == 0 ? kNaN : xy / std::sqrt(xx * yy);
}

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    const double mean = static_cast<double>(i + end - 1) / 2;
    for (; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

}  // namespace

Correlation correlate(std::span<const double> x, std::span<const double> y) {
  assert(x.size() == y.size() && x.size() >= 2);
  Correlation found;
  found.pearson = pearson_of(x, y);
  found.spearman = pearson_of(ranks_of(x), ranks_of(y));
  found.low = found.high = kNaN;
  if (x.size() > 3 && !std::isnan(found.pearson)) {
    const double z = std::atanh(std::clamp(found.pearson, -1 + 1e-15, 1 - 1e-15));
    const double half = 1.959963984540054 / std::sqrt(static_cast<double>(x.size()) - 3);
    found.low = std::tanh(z - half);
    found.high = std::tanh(z + half);
  }
  return found;
}

}  // namespace kvasir::eval
