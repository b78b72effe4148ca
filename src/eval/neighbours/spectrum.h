// How many directions a set of vectors fills (DeltaKV, arXiv 2602.08005: residuals have a flatter
// spectrum than the tokens). Pure.
//
// The effective rank is that of Roy and Vetterli (EUSIPCO 2007) with squared singular values:
// exp of the entropy of their shares. One direction gives 1, d equal ones d.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir::eval {

/// Ends of the cumulated spectrum: 1, 2, 4, ... directions.
inline constexpr int32_t kSpectrumPoints = 10;

struct Spectrum {
  double effective_rank = 0;
  /// [i] share of the sum of squares in the 2^i strongest directions; kSpectrumPoints of them
  std::vector<double> energy;
};

/// Of squared singular values in any order; those below 0, which rounding makes, count as 0.
Spectrum spectrum_of(std::vector<double> squares);

/// Squared singular values of channels [first, first + width) of n vectors, [n, stride] f32;
/// `centred`: each channel less its mean.
class Directions {
 public:
  Directions(const float* vectors, int32_t n, int32_t width);
  std::vector<double> squares(int32_t first, int32_t width, bool centred) const;

 private:
  int32_t n_, width_;
  std::vector<double> gram_;  // [width, width] sums of products
  std::vector<double> sums_;  // [width]
};

}  // namespace kvasir::eval
