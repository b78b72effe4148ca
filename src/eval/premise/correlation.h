// How two columns of numbers go together.
#pragma once

#include <span>

namespace kvasir::eval {

struct Correlation {
  double pearson = 0;  ///< NaN if one of the columns is constant
  double low = 0;      ///< its 95 % interval by Fisher's z; NaN for fewer than 4 pairs
  double high = 0;
  double spearman = 0;  ///< Pearson's r of the ranks; ties share their mean rank
};

/// Requires: columns of equal length, at least 2.
Correlation correlate(std::span<const double> x, std::span<const double> y);

}  // namespace kvasir::eval
