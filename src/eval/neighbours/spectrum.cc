#include "eval/neighbours/spectrum.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>

namespace kvasir::eval {
namespace {

using Matrix = Eigen::MatrixXd;
constexpr Eigen::Index kBlock = 512;  // vectors that are widened to double at once

}  // namespace

Spectrum spectrum_of(std::vector<double> squares) {
  for (double& square : squares) square = std::max(square, 0.0);
  std::sort(squares.begin(), squares.end(), std::greater<>());
  const double total = std::accumulate(squares.begin(), squares.end(), 0.0);
  Spectrum spectrum;
  double entropy = 0;
  for (const double square : squares) {
    if (square > 0) entropy -= square / total * std::log(square / total);
  }
  spectrum.effective_rank = total > 0 ? std::exp(entropy) : 0;
  double sum = 0;
  size_t taken = 0;
  for (int32_t point = 0; point < kSpectrumPoints; ++point) {
    const size_t end = std::min(squares.size(), size_t{1} << point);
    for (; taken < end; ++taken) sum += squares[taken];
    spectrum.energy.push_back(total > 0 ? std::min(sum / total, 1.0) : 0);
  }
  return spectrum;
}

Directions::Directions(const float* vectors, int32_t n, int32_t width)
    : n_(n),
      width_(width),
      gram_(static_cast<size_t>(width) * static_cast<size_t>(width)),
      sums_(static_cast<size_t>(width)) {
  Eigen::Map<Matrix> gram(gram_.data(), width, width);
  Eigen::Map<Eigen::VectorXd> sums(sums_.data(), width);
  // Columns are vectors here: Eigen's matrices are stored by columns.
  const Eigen::Map<const Eigen::MatrixXf> all(vectors, width, n);
  for (Eigen::Index first = 0; first < n; first += kBlock) {
    const Matrix block = all.middleCols(first, std::min(kBlock, n - first)).cast<double>();
    gram.selfadjointView<Eigen::Lower>().rankUpdate(block);
    sums += block.rowwise().sum();
  }
}

std::vector<double> Directions::squares(int32_t first, int32_t width, bool centred) const {
  assert(first >= 0 && width > 0 && first + width <= width_);
  Matrix part =
      Eigen::Map<const Matrix>(gram_.data(), width_, width_).block(first, first, width, width);
  if (centred && n_ > 0) {
    const Eigen::VectorXd sums =
        Eigen::Map<const Eigen::VectorXd>(sums_.data(), width_).segment(first, width);
    part -= sums * sums.transpose() / n_;
  }
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(part, Eigen::EigenvaluesOnly);
  return {solver.eigenvalues().data(), solver.eigenvalues().data() + width};
}

}  // namespace kvasir::eval
