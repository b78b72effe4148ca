#include "format/principal_axes.h"

#include <Eigen/Dense>
#include <algorithm>

namespace kvasir {
namespace {

constexpr int32_t kSomeRows = 64;  // that are centred at once

}  // namespace

// Products are summed some rows at a time: a copy of all in double would be the largest thing here.
PrincipalAxes principal_axes(const float* rows, int32_t n, int64_t stride, int32_t width,
                             int32_t rank) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Rows, 0, Eigen::OuterStride<>> all(rows, n, width,
                                                            Eigen::OuterStride<>(stride));
  Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(width);
  for (int32_t r = 0; r < n; ++r) mean += all.row(r).cast<double>();
  mean /= n;
  Eigen::MatrixXd products = Eigen::MatrixXd::Zero(width, width);
  Eigen::MatrixXd centred;
  for (int32_t first = 0; first < n; first += kSomeRows) {
    centred = all.middleRows(first, std::min(kSomeRows, n - first)).cast<double>();
    centred.rowwise() -= mean;
    products.noalias() += centred.transpose() * centred;
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(products);
  PrincipalAxes out;
  out.axes.reserve(static_cast<size_t>(rank) * static_cast<size_t>(width));
  out.mean.reserve(static_cast<size_t>(width));
  for (int32_t d = 0; d < width; ++d) out.mean.push_back(static_cast<float>(mean(d)));
  for (int32_t r = 0; r < rank; ++r) {  // eigenvalues ascend
    for (int32_t d = 0; d < width; ++d) {
      out.axes.push_back(static_cast<float>(solver.eigenvectors()(d, width - 1 - r)));
    }
  }
  return out;
}

// Products, the solver's copy of them and one more; blocks of a product that is not in place.
int64_t principal_axes_bytes(int32_t width) {
  constexpr int64_t kDouble = sizeof(double);
  return (int64_t{4} * width + int64_t{4} * kSomeRows) * width * kDouble;
}

}  // namespace kvasir
