#include "format/principal_axes.h"

#include <Eigen/Dense>

namespace kvasir {

PrincipalAxes principal_axes(const float* rows, int32_t n, int64_t stride, int32_t width,
                             int32_t rank) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Rows, 0, Eigen::OuterStride<>> all(rows, n, width,
                                                            Eigen::OuterStride<>(stride));
  const Eigen::MatrixXd x = all.cast<double>();
  const Eigen::RowVectorXd mean = x.colwise().mean();
  const Eigen::MatrixXd centred = x.rowwise() - mean;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(centred.transpose() * centred);
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

}  // namespace kvasir
